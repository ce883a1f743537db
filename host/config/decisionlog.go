package config

import "github.com/kvasir-router/kvasir/host/telemetry/decisions"

func (d *DecisionLog) defaults() {
	if d.File == "" {
		return
	}
	if d.SampleAllow == nil {
		share := 0.01
		d.SampleAllow = &share
	}
	or(&d.MaxSize, 64<<20)
	or(&d.Keep, 8)
}

func (k *checker) decisionLog(d *DecisionLog) {
	const path = "telemetry.decision_log"
	if d.File == "" {
		if d.SampleAllow != nil || d.Placements != 0 || len(d.Mask) > 0 || d.RequireAudit || d.MaxSize != 0 || d.Keep != 0 {
			k.add(path+".file", "missing: the other fields require it")
		}
		return
	}
	if s := *d.SampleAllow; s < 0 || s > 1 {
		k.add(path+".sample_allow", "want a share from 0 to 1, got %v", s)
	}
	if s := d.Placements; !(s >= 0 && s <= 1) {
		k.add(path+".sample_placements", "want a share from 0 to 1, got %v", s)
	}
	if d.MaxSize < 1<<20 {
		k.add(path+".max_size", "want at least 1MiB, got %d bytes", d.MaxSize)
	}
	if d.Keep > 1000 {
		k.add(path+".keep", "want at most 1000, got %d", d.Keep)
	}
	if err := decisions.CheckMask(d.Mask); err != nil {
		k.add(path+".mask", "%v", err)
	}
}
