package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

func explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "explain where a request was placed, or where one would be",
		Long: "kvasir explain --request ID explains a served request (ID is the x-request-id of its answer).\n" +
			"kvasir explain FILE explains how the request body in FILE would be placed, without sending it.",
		Args: cobra.MaximumNArgs(1),
	}
	a, output := routerFlags(c), outputFlag(c)
	id := c.Flags().String("request", "", "x-request-id of a served request")
	tenant := c.Flags().String("tenant", "",
		"for FILE: the tenant of the request; with --request: the tenant, if several used the id")
	other := c.Flags().Bool("counterfactual", false,
		"with --request: show what other profiles and baselines would have chosen from the same columns")
	path := c.Flags().String("path", "/v1/chat/completions", "for FILE: the API path of the request")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *id != "" && len(args) == 0:
			text := printExplanation
			if *other {
				text = printCounterfactual
			}
			q := &admin.ExplainRequest{ID: *id, Tenant: *tenant, Counterfactual: *other}
			return show(cmd, a, *output, admin.Explain, q, text)
		case *other:
			return exit(exitUsage, "--counterfactual needs --request: it compares the columns of a served request")
		case *id == "" && len(args) == 1:
			body, err := os.ReadFile(args[0])
			if err != nil {
				return exit(exitUsage, "%v", err)
			}
			q := &admin.DryRun{Tenant: *tenant, Path: *path, Body: body}
			return show(cmd, a, *output, admin.ExplainDryRun, q, printExplanation)
		}
		return exit(exitUsage, "missing --request ID or FILE with a request body; give one of them")
	}
	return c
}

// reportedText returns the cached tokens that the engine reported, and why they may exceed
// the prediction.
func reportedText(e *scheduler.Explanation) string {
	if e.ReportedCached == nil {
		return "not known"
	}
	for _, c := range e.Candidates {
		if c.Endpoint == e.Chosen && c.EarlierBlocks && *e.ReportedCached > e.PredictedCached {
			return fmt.Sprintf("%d: the endpoint holds blocks that this router has not seen", *e.ReportedCached)
		}
	}
	return fmt.Sprint(*e.ReportedCached)
}

// printExplanation writes a decision as text.
func printExplanation(w io.Writer, e *scheduler.Explanation) error {
	fmt.Fprintf(w, "request    %s\ntenant     %s (namespace %s)\nmodel      %s\n",
		e.RequestID, e.Tenant, e.NamespaceHash, e.Model)
	printPolicy(w, e.Policy)
	if !e.Allow {
		_, err := fmt.Fprintf(w, "refused    %d %s\n", e.Status, e.Reason)
		return err
	}
	fmt.Fprintf(w, "prompt     %d tokens, blocks of %d\nprofile    %s: %s\n"+
		"placed     %s, arm %s\ncached     %d predicted, %s reported\n\n",
		e.Tokens, e.BlockTokens, e.Profile, e.ProfileReason, e.Chosen, e.Arm, e.PredictedCached, reportedText(e))
	if err := printCandidates(w, e.Candidates); err != nil {
		return err
	}
	printScores(w, e.Candidates)
	for _, p := range e.Plugins {
		fault := ""
		if p.Fault != "" {
			fault = ": ignored: " + p.Fault
		}
		fmt.Fprintf(w, "plugin %s (%s)%s\n", p.Name, p.Digest[:min(12, len(p.Digest))], fault)
	}
	_, err := fmt.Fprintf(w, "order: %s\n", strings.Join(e.Order, ", "))
	return err
}

// printCounterfactual writes what other profiles and baselines would have chosen.
func printCounterfactual(w io.Writer, e *scheduler.Explanation) error {
	if !e.Allow {
		return printExplanation(w, e)
	}
	fmt.Fprintf(w, "request    %s, %d tokens\nplaced     %s by profile %s (%d tokens predicted)\n\n", e.RequestID,
		e.Tokens, e.Chosen, e.Profile, e.PredictedCached)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WOULD CHOOSE\tENDPOINT\tSAME\tMATCHED\tTO COMPUTE\tIN FLIGHT\tNOTE")
	for _, x := range e.Counterfactual {
		same := "no"
		if x.Same {
			same = "yes"
		}
		fmt.Fprintf(t, "%s %s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%s\n", x.Kind, x.Name, x.Endpoint, same, x.MatchedTokens,
			x.UncachedTokens, x.Inflight, x.Note)
	}
	return t.Flush()
}

// printPolicy writes the fields of the policy's decision that are set.
func printPolicy(w io.Writer, f policy.Fields) {
	if set := f.Text(); len(set) > 0 {
		fmt.Fprintf(w, "policy     %s\n", strings.Join(set, "; "))
	}
}

// printCandidates writes a table with a row for each candidate and all columns that
// any of them has.
func printCandidates(w io.Writer, candidates []scheduler.Candidate) error {
	var names []string
	for _, c := range candidates {
		for n := range c.Columns {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "endpoint\tstate\ttotal\tmatched\t%s\t\n", strings.Join(names, "\t"))
	for _, c := range candidates {
		state := c.State
		if c.Reason != "" {
			state += ": " + c.Reason
		}
		matched := 0
		for _, n := range c.Matched {
			matched = max(matched, n)
		}
		fmt.Fprintf(t, "%s\t%s\t%.6g\t%d\t", c.Endpoint, state, c.Total, matched)
		for _, n := range names {
			fmt.Fprintf(t, "%.6g\t", c.Columns[n])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// printScores writes the scores of each candidate with their terms.
func printScores(w io.Writer, candidates []scheduler.Candidate) {
	for _, c := range candidates {
		for _, plugin := range slices.Sorted(maps.Keys(c.Scores)) {
			s := c.Scores[plugin]
			fmt.Fprintf(w, "%s by %s: score %.6g", c.Endpoint, plugin, s.Score+0) // no -0
			for _, n := range slices.Sorted(maps.Keys(s.Terms)) {
				fmt.Fprintf(w, ", %s %.6g", n, s.Terms[n]+0)
			}
			fmt.Fprintln(w)
		}
	}
}
