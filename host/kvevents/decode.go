package kvevents

import (
	"errors"
	"strconv"
)

// maxBlockTokens bounds the block size of an event. Engines use 1 to 512; a larger
// one than this is an error of the sender.
const maxBlockTokens = 1 << 16

// maxKeptTokens bounds the scratch that a Decoder keeps between batches, in
// token ids and in hashes: 4 MiB and 8 MiB. A batch of four prompts of 256k
// tokens fits; a rare larger one allocates.
const maxKeptTokens = 1 << 20

// ErrEnvelope is returned by [Decoder.Decode] for a payload that is not a batch:
// nothing of it was decoded.
var ErrEnvelope = errors.New("kvevents: payload is not an event batch")

// Errors of a single event, besides those of msgpack.
var (
	errNoType   = errors.New("kvevents: event without a type")
	errNoHashes = errors.New("kvevents: event without block hashes")
	errShape    = errors.New("kvevents: not as many extra keys or copy counts as blocks")
)

// DecodeStats counts what a Decoder has decoded since it was made.
type DecodeStats struct {
	Batches, Stored, Removed, Cleared uint64

	Unknown    uint64 // events of an unknown type
	OtherGroup uint64 // events of cache groups that are not indexed
	Sparse     uint64 // stored events whose tokens do not cover their blocks

	// Events that could not be decoded, by reason; FailedEnvelope counts payloads.
	FailedEnvelope, FailedTruncated, FailedType, FailedDepth, FailedRange, FailedMissing uint64
}

// Failed returns the number of events and payloads that could not be decoded.
func (s *DecodeStats) Failed() uint64 {
	return s.FailedEnvelope + s.FailedTruncated + s.FailedType + s.FailedDepth + s.FailedRange + s.FailedMissing
}

// Decoder decodes payloads of one publisher. It owns the memory that batches point
// into and knows which cache groups are indexed. Not safe for concurrent use. The
// zero Decoder is ready for use.
type Decoder struct {
	Stats DecodeStats

	batch   Batch
	tokens  []uint32
	hashes  []uint64
	copies  []uint32
	ids     []byte // decimal adapter numbers
	primary int    // 1 + the indexed group; 0: none yet
	foreign [4]uint64
}

// Reset clears which groups are indexed, for a publisher that has restarted.
func (d *Decoder) Reset() { d.primary, d.foreign = 0, [4]uint64{} }

// Decode decodes one payload. The batch and all it points to are valid until the
// next call, and only while payload does not change. The error is nil or
// ErrEnvelope; invalid events are left out, and counted in Stats and Batch.Failed.
func (d *Decoder) Decode(payload []byte) (*Batch, error) {
	d.trim()
	b := &d.batch
	*b = Batch{Rank: -1, Events: b.Events[:0]}
	r := reader{b: payload}
	d.Stats.Batches++
	if err := d.envelope(&r); err != nil {
		d.Stats.FailedEnvelope++
		b.Failed++
		if len(b.Events) == 0 {
			return nil, ErrEnvelope
		}
	}
	return b, nil
}

// trim empties the scratch memory, and frees it after a huge batch.
func (d *Decoder) trim() {
	if cap(d.tokens) > maxKeptTokens || cap(d.hashes) > maxKeptTokens {
		d.tokens, d.hashes, d.batch.Events = nil, nil, nil
	}
	d.tokens, d.hashes, d.copies, d.ids = d.tokens[:0], d.hashes[:0], d.copies[:0], d.ids[:0]
}

// envelope reads [ts, events, rank?, …] or {"ts":, "events":, "data_parallel_rank":}.
func (d *Decoder) envelope(r *reader) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	if isObject(c) {
		return d.envelopeMap(r)
	}
	n, err := r.array()
	if err != nil {
		return err
	}
	for i := range n {
		switch i {
		case 0:
			err = d.timestamp(r)
		case 1:
			err = d.events(r)
		case 2:
			err = d.rank(r)
		default:
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
	if n < 2 {
		return errType
	}
	return nil
}

func (d *Decoder) envelopeMap(r *reader) error {
	n, err := r.object()
	seen := false
	for ; err == nil && n > 0; n-- {
		var key []byte
		if key, err = r.text(); err != nil {
			return err
		}
		switch string(key) {
		case "ts":
			err = d.timestamp(r)
		case "events":
			seen = true
			err = d.events(r)
		case "data_parallel_rank", "attn_dp_rank", "dp_rank":
			err = d.rank(r)
		default:
			err = r.skip()
		}
	}
	if err == nil && !seen {
		err = errType
	}
	return err
}

func (d *Decoder) timestamp(r *reader) (err error) {
	if r.isNil() {
		return nil
	}
	d.batch.TS, err = r.number()
	return err
}

func (d *Decoder) rank(r *reader) (err error) {
	if r.isNil() {
		return nil
	}
	d.batch.Rank, err = r.count(1 << 16)
	return err
}

// events reads the list of events. A fault inside an event is skipped over as
// long as the bytes still tell where the event ends.
func (d *Decoder) events(r *reader) error {
	n, err := r.array()
	if err != nil {
		return err
	}
	for ; n > 0; n-- {
		start := r.i
		if fault := d.event(r); fault != nil {
			d.fail(fault)
			r.i = start
			if err := r.skip(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Decoder) fail(err error) {
	d.batch.Failed++
	switch err {
	case errTruncated:
		d.Stats.FailedTruncated++
	case errDepth:
		d.Stats.FailedDepth++
	case errRange:
		d.Stats.FailedRange++
	case errNoType, errNoHashes, errShape:
		d.Stats.FailedMissing++
	default:
		d.Stats.FailedType++
	}
}

// fields is what an event's bytes say, before it is known what they mean: in a
// map the keys come in any order.
type fields struct {
	Event
	typ      []byte
	kind     []byte // kv_cache_spec_kind
	extra    reader // extra_keys, from its first byte on; b is nil if absent
	loraID   uint64
	hasID    bool
	hasBlock bool // hashes were given
	remote   bool // not stored by the publisher itself
}

// event reads one event, either form, and appends it to the batch if it is to be
// indexed.
func (d *Decoder) event(r *reader) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	f := fields{Event: Event{Group: -1}}
	if isObject(c) {
		err = d.eventMap(r, &f)
	} else {
		err = d.eventArray(r, &f)
	}
	if err != nil {
		return err
	}
	return d.accept(&f)
}

func (d *Decoder) eventMap(r *reader, f *fields) error {
	n, err := r.object()
	for ; err == nil && n > 0; n-- {
		var key []byte
		if key, err = r.text(); err != nil {
			return err
		}
		if string(key) == "type" {
			f.typ, err = r.text()
			continue
		}
		if r.isNil() {
			continue
		}
		err = d.field(r, f, key)
	}
	return err
}

// field reads the value of one key of a map event; it is not nil.
func (d *Decoder) field(r *reader, f *fields, key []byte) (err error) {
	switch string(key) {
	case "block_hashes":
		err = d.hashList(r, f)
	case "parent_block_hash":
		f.HasParent = true
		f.Parent, err = hashValue(r)
	case "token_ids":
		err = d.tokenList(r, f)
	case "block_size":
		f.BlockTokens, err = r.count(maxBlockTokens)
	case "lora_id":
		err = d.loraID(r, f)
	case "medium":
		err = mediumValue(r, f)
	case "lora_name":
		f.Adapter, err = r.text()
		f.AdapterIsID = false
	case "cache_salt":
		f.SaltUnhashed = true
		f.Salt, err = r.text()
	case "extra_keys":
		f.extra = *r
		err = r.skip()
	case "group_idx":
		f.Group, err = r.count(1 << 16)
	case "kv_cache_spec_kind":
		f.kind, err = r.text()
	case "locality":
		var where []byte
		where, err = r.text()
		f.remote = fold(where, "remote")
	case "remaining_copy_counts":
		err = d.copyList(r, f)
	default:
		err = r.skip()
	}
	return err
}

// storedOrder and removedOrder name the places of the array form
// (vllm/distributed/kv_events.py until 0.23; trailing ones came one by one).
var (
	storedOrder = [...]string{"", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
		"medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"}
	removedOrder = [...]string{"", "block_hashes", "medium", "group_idx"}
)

func (d *Decoder) eventArray(r *reader, f *fields) error {
	n, err := r.array()
	if err != nil {
		return err
	}
	if n == 0 {
		return errNoType
	}
	if f.typ, err = r.text(); err != nil {
		return err
	}
	var order []string
	switch string(f.typ) {
	case "BlockStored":
		order = storedOrder[:]
	case "BlockRemoved":
		order = removedOrder[:]
	}
	for i := 1; i < n; i++ {
		switch {
		case r.isNil():
		case i >= len(order):
			err = r.skip()
		case i == 7 && isObject(r.b[min(r.i, len(r.b)-1)]):
			err = d.sglangTail(r, f)
		default:
			err = d.field(r, f, []byte(order[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sglangTail reads the map that SGLang 0.5.18 (sglang#30827) puts where vLLM has
// the adapter's name: {"cache_salt": …}.
func (d *Decoder) sglangTail(r *reader, f *fields) error {
	n, err := r.object()
	for ; err == nil && n > 0; n-- {
		var key []byte
		if key, err = r.text(); err != nil {
			return err
		}
		if !r.isNil() {
			err = d.field(r, f, key)
		}
	}
	return err
}

// accept decides whether a well-formed event is indexed, and appends it.
func (d *Decoder) accept(f *fields) error {
	switch string(f.typ) {
	case "BlockStored":
		f.Event.Kind = Stored
	case "BlockRemoved":
		f.Event.Kind = Removed
	case "AllBlocksCleared":
		d.Stats.Cleared++
		d.batch.Events = append(d.batch.Events, Event{Kind: Cleared, Group: -1})
		return nil
	case "":
		return errNoType
	default:
		d.Stats.Unknown++
		return nil
	}
	if !f.hasBlock {
		return errNoHashes
	}
	if f.remote {
		f.Medium = External
	}
	if !d.indexed(f) {
		d.Stats.OtherGroup++
		return nil
	}
	if f.Event.Kind == Removed {
		if len(f.Copies) != 0 && len(f.Copies) != len(f.Hashes) {
			return errShape
		}
		d.Stats.Removed++
		d.batch.Events = append(d.batch.Events, f.Event)
		return nil
	}
	return d.acceptStored(f)
}

func (d *Decoder) acceptStored(f *fields) error {
	if f.BlockTokens == 0 || len(f.Hashes) == 0 || len(f.Tokens) != f.BlockTokens*len(f.Hashes) {
		d.Stats.Sparse++
		return nil
	}
	if f.hasID && len(f.Adapter) == 0 {
		start := len(d.ids)
		d.ids = strconv.AppendInt(d.ids, int64(f.loraID), 10)
		f.Adapter, f.AdapterIsID = d.ids[start:], true
	}
	if f.extra.b != nil {
		if err := d.extraKeys(f); err != nil {
			return err
		}
	}
	d.Stats.Stored++
	d.batch.Events = append(d.batch.Events, f.Event)
	return nil
}

// indexed reports whether the event's cache group decides about prefix reuse.
// Only full attention, MLA and sink groups do. A hybrid model with several of
// them stores a block in all of them, so the first one seen speaks for the rest.
// Removals do not tell the kind; groups learned from stored events answer.
func (d *Decoder) indexed(f *fields) bool {
	g := f.Group
	if g < 0 {
		return len(f.kind) == 0 || fullKind(f.kind)
	}
	if len(f.kind) != 0 && !fullKind(f.kind) {
		if g < 256 {
			d.foreign[g/64] |= 1 << (g % 64)
		}
		return false
	}
	if g < 256 && d.foreign[g/64]&(1<<(g%64)) != 0 {
		return false
	}
	if d.primary == 0 {
		if f.Event.Kind == Removed {
			return true
		}
		d.primary = g + 1
	}
	return d.primary == g+1
}

func fullKind(k []byte) bool {
	switch string(k) {
	case "full_attention", "mla_attention", "mla", "sink_full_attention":
		return true
	}
	return false
}
