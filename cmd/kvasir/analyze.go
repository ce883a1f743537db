package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/replay/analyze"
)

// defaultPrefillRate is the prefill rate of an 8B model on one H100 in tokens per
// second, as the preset 8b-h100 has it.
const defaultPrefillRate = 32768

// analysis is the output of kvasir analyze.
type analysis struct {
	File         string  `json:"file"`
	Format       string  `json:"format"`
	Requests     int     `json:"requests"`
	Skipped      int     `json:"skipped"` // whose prompts are not known
	PromptTokens int     `json:"prompt_tokens"`
	Estimated    bool    `json:"estimated"` // tokens are a quarter of the bytes
	Caches       []saved `json:"caches"`
	Diverge      diverge `json:"diverge"`
	Causes       []cause `json:"causes"`
}

// saved is what a cache of one size saves.
type saved struct {
	CacheTokens int     `json:"cache_tokens"` // 0 = unbounded
	HitTokens   int     `json:"hit_tokens"`
	HitRatio    float64 `json:"hit_ratio"`
	GPUSeconds  float64 `json:"gpu_seconds"`
	Money       float64 `json:"money"`
}

// diverge is the quartiles of the token at which a prompt leaves all earlier ones.
type diverge struct {
	P25 int `json:"p25"`
	P50 int `json:"p50"`
	P75 int `json:"p75"`
}

// cause is what ends the reuse of prompts.
type cause struct {
	Name       string  `json:"name"`
	Prompts    int     `json:"prompts"`
	Token      int     `json:"median_token"`
	GainTokens int     `json:"gain_tokens"`
	GPUSeconds float64 `json:"gpu_seconds"`
	Money      float64 `json:"money"`
	Fix        string  `json:"fix"`
}

func analyzeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "analyze FILE",
		Short: "measure how much of a workload's prompts could be reused, and what ends their reuse",
		Long: "kvasir analyze reads JSON lines, compressed if the name ends in .gz: a decision log with\n" +
			"sample_placements, a Mooncake or WEKA trace, or request bodies of the OpenAI API.\n" +
			"It prints the ideal share of cached tokens by the size of all caches together, and for bodies\n" +
			"what makes prompts differ (times, ids, the order of tools) with what its removal would gain in an\n" +
			"unbounded cache. The file does not leave the machine.",
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	sizes := c.Flags().StringSlice("cache", []string{"256k", "1M", "4M", "16M", "64M"},
		"sizes of all caches together, in tokens (k, M)")
	rate := c.Flags().Float64("prefill-rate", defaultPrefillRate,
		"prompt tokens per second and GPU; default that of an 8B model on one H100")
	price := c.Flags().Float64("gpu-hour", 0, "price of a GPU hour; 0 = no sums of money")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		caches, err := parseSizes(*sizes)
		if err != nil {
			return err
		}
		if !(*rate > 0) || !(*price >= 0) {
			return exit(exitUsage, "--prefill-rate %v, --gpu-hour %v: want a rate above 0 and a price", *rate, *price)
		}
		w, err := analyze.Open(args[0])
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		if len(w.Prompts) == 0 {
			return exit(exitNo, "%s has no request with a known prompt; %d were skipped", args[0], w.Skipped)
		}
		a := newAnalysis(args[0], w, caches, *rate, *price)
		if *output == "json" {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(a)
		}
		return printAnalysis(cmd.OutOrStdout(), a, *price > 0)
	}
	return c
}

// parseSizes reads sizes in tokens and sorts them.
func parseSizes(text []string) (out []int, err error) {
	for _, s := range text {
		unit := 1
		number := s
		for suffix, n := range map[string]int{"k": 1 << 10, "M": 1 << 20} {
			if rest, ok := strings.CutSuffix(s, suffix); ok {
				number, unit = rest, n
			}
		}
		n, err := strconv.Atoi(number)
		if err != nil || n <= 0 || n > 1<<40/unit {
			return nil, exit(exitUsage, "--cache %s: want a number of tokens, such as 512k or 4M", s)
		}
		out = append(out, n*unit)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func newAnalysis(file string, w *analyze.Workload, caches []int, rate, price float64) *analysis {
	r := analyze.Measure(w.Prompts, w.BlockTokens, caches)
	a := &analysis{File: file, Format: w.Format, Requests: r.Requests, Skipped: w.Skipped, PromptTokens: r.PromptTokens,
		Estimated: len(w.Bodies) > 0, Caches: []saved{}, Causes: []cause{}}
	seconds := func(tokens int) float64 { return float64(tokens) / rate }
	money := func(tokens int) float64 { return seconds(tokens) / 3600 * price }
	for _, s := range r.Sizes {
		a.Caches = append(a.Caches, saved{s.CacheTokens, s.HitTokens, s.Ratio, seconds(s.HitTokens), money(s.HitTokens)})
	}
	slices.Sort(r.Begins)
	at := func(share float64) int { return r.Begins[int(share*float64(len(r.Begins)-1))] }
	a.Diverge = diverge{at(0.25), at(0.5), at(0.75)}
	for _, c := range analyze.Diverge(w.Bodies) {
		a.Causes = append(a.Causes, cause{c.Name, c.Prompts, c.Median, c.GainToken, seconds(c.GainToken), money(c.GainToken),
			c.Fix})
	}
	return a
}

func printAnalysis(w io.Writer, a *analysis, money bool) error {
	about := ""
	if a.Estimated {
		about = " (estimated: a quarter of the bytes)"
	}
	fmt.Fprintf(w, "%s: %s, %d requests, %d prompt tokens%s", a.File, a.Format, a.Requests, a.PromptTokens, about)
	if a.Skipped > 0 {
		fmt.Fprintf(w, ", %d requests without a known prompt skipped", a.Skipped)
	}
	fmt.Fprintf(w, "\nprompts leave all earlier ones at token %d (a quarter of them), %d (half), %d (three quarters)\n\n",
		a.Diverge.P25, a.Diverge.P50, a.Diverge.P75)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	column := ""
	if money {
		column = "\tMONEY"
	}
	fmt.Fprintf(t, "CACHE (TOKENS)\tIDEAL HIT RATIO\tTOKENS SAVED\tGPU SECONDS%s\n", column)
	for _, s := range a.Caches {
		size := "unbounded"
		if s.CacheTokens > 0 {
			size = strconv.Itoa(s.CacheTokens)
		}
		fmt.Fprintf(t, "%s\t%.1f %%\t%d\t%.1f%s\n", size, 100*s.HitRatio, s.HitTokens, s.GPUSeconds, sum(money, s.Money))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if !a.Estimated {
		return nil
	}
	if len(a.Causes) == 0 {
		_, err := fmt.Fprintln(w, "\nno times, ids or orders of tools were found whose removal would gain anything")
		return err
	}
	fmt.Fprintf(t, "\nENDS REUSE\tPROMPTS\tMEDIAN TOKEN\tTOKENS GAINED\tGPU SECONDS%s\tFIX\n", column)
	for _, c := range a.Causes {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f%s\t%s\n", c.Name, c.Prompts, c.Token, c.GainTokens, c.GPUSeconds,
			sum(money, c.Money), c.Fix)
	}
	return t.Flush()
}

// sum returns a column with a sum of money, if there are such columns.
func sum(shown bool, v float64) string {
	if !shown {
		return ""
	}
	return fmt.Sprintf("\t%.2f", v)
}
