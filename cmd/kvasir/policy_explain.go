package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/policy"
)

// inputFlags describe an input document.
type inputFlags struct {
	file   string
	values map[string]any // pointers to the flags' values, by the path of the field
}

func (f *inputFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.file, "input", "", "JSON file with the input document, - = standard input; instead of the flags below")
	f.values = map[string]any{}
	for _, x := range policy.InputFlags() {
		usage := x.Path
		if x.Path == tenantPath {
			usage += "; with --request: whose request it is, where several tenants used the id"
		}
		switch x.Kind {
		case policy.InputText:
			f.values[x.Path] = s.String(x.Name, x.Default, usage)
		case policy.InputList:
			f.values[x.Path] = s.StringSlice(x.Name, nil, usage)
		case policy.InputBool:
			f.values[x.Path] = s.Bool(x.Name, false, usage)
		case policy.InputHour:
			f.values[x.Path] = s.Int(x.Name, 0, usage)
		case policy.InputLabels:
			f.values[x.Path] = s.StringToString(x.Name, nil, usage+", name=value")
		}
	}
}

const tenantPath = "tenant.id"

// tenant returns the value of --tenant.
func (f *inputFlags) tenant() string { return *f.values[tenantPath].(*string) }

// document returns the input document as JSON.
func (f *inputFlags) document(stdin io.Reader) ([]byte, error) {
	switch f.file {
	case "":
	case "-":
		return io.ReadAll(io.LimitReader(stdin, 1<<20))
	default:
		return os.ReadFile(f.file)
	}
	if f.tenant() == "" {
		return nil, exit(exitUsage, "missing tenant: give --tenant NAME, or --input FILE")
	}
	doc := map[string]any{}
	for path, v := range f.values {
		o, names := doc, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			if o[name] == nil {
				o[name] = map[string]any{}
			}
			o = o[name].(map[string]any)
		}
		o[names[len(names)-1]] = v
	}
	return json.Marshal(doc)
}

func policyExplain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [DIR]",
		Short: "show what a policy decides about an input, and which rules applied",
		Long: "kvasir policy explain DIR --tenant NAME --model NAME evaluates the policy in DIR.\n" +
			"Without DIR it evaluates the policy of a running router.\n" +
			"kvasir policy explain --request ID shows which rules decided about a served request (ID is the x-request-id\n" +
			"of its response).",
		Args: cobra.MaximumNArgs(1),
	}
	a, output := routerFlags(c), outputFlag(c)
	var settings policyFlags
	settings.add(c)
	var in inputFlags
	in.add(c)
	id := c.Flags().String("request", "", "x-request-id of a served request")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if *id != "" {
			if len(args) > 0 {
				return exit(exitUsage, "--request is about a running router: omit DIR")
			}
			return explainServed(a, *id, in.tenant(), *output, cmd.OutOrStdout())
		}
		doc, err := in.document(cmd.InOrStdin())
		if err != nil {
			return exit(exitUsage, "%v", err)
		}
		var x *policy.Explanation
		if len(args) == 0 {
			x, err = ask(a, admin.ExplainPolicy, &admin.PolicyExplainRequest{Input: doc})
		} else {
			x, err = explainOffline(&settings, args[0], doc)
		}
		if err != nil {
			return err
		}
		if *output == "json" {
			return printValue(cmd.OutOrStdout(), x)
		}
		return printDecision(cmd.OutOrStdout(), x)
	}
	return c
}

func explainOffline(f *policyFlags, dir string, doc []byte) (*policy.Explanation, error) {
	in, err := policy.ParseInput(doc)
	if err != nil {
		return nil, exit(exitUsage, "%v", err)
	}
	s, err := f.load(dir, true)
	if err != nil {
		return nil, err
	}
	return s.Explain(in), nil
}

// servedDecision is what the text output shows of a served request.
type servedDecision struct {
	RequestID string   `json:"request_id"`
	Tenant    string   `json:"tenant"`
	Allow     bool     `json:"allow"`
	Reason    string   `json:"reason"`
	Status    int      `json:"status"`
	Model     string   `json:"model"`
	Namespace string   `json:"namespace_hash"`
	Rules     []string `json:"rules"`
	Revision  string   `json:"policy_revision"`
}

func explainServed(a *router, id, tenant, output string, w io.Writer) error {
	x, err := ask(a, admin.Explain, &admin.ExplainRequest{ID: id, Tenant: tenant})
	if err != nil {
		return err
	}
	d := servedDecision{x.RequestID, x.Tenant, x.Allow, x.Reason, x.Status, x.Model, x.NamespaceHash, x.Rules,
		x.PolicyRevision}
	if output == "json" {
		return printValue(w, d)
	}
	word := "allowed"
	if !d.Allow {
		word = fmt.Sprintf("refused with %d: %s", d.Status, d.Reason)
	}
	_, err = fmt.Fprintf(w, "request    %s\ntenant     %s (namespace %s)\nmodel      %s\ndecision   %s\nrules      "+
		"%s\nrevision   %s\n",
		d.RequestID, d.Tenant, d.Namespace, d.Model, word, strings.Join(d.Rules, ", "), d.Revision)
	return err
}

// printDecision writes an explanation of a decision as text.
func printDecision(w io.Writer, x *policy.Explanation) error {
	fmt.Fprintf(w, "revision   %s\ndepends on %s\n", x.Revision, strings.Join(x.DependsOn, " "))
	if x.Decision == nil {
		fmt.Fprintf(w, "decision   none: %s\n", x.Error)
	} else {
		var text bytes.Buffer
		j, err := json.Marshal(x.Decision)
		if err == nil {
			err = json.Indent(&text, j, "", "  ")
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "decision   %s\n", text.Bytes())
	}
	fmt.Fprintln(w, "rules that applied:")
	for _, r := range x.Rules {
		id := ""
		if r.ID != "" {
			id = " (" + r.ID + ")"
		}
		if _, err := fmt.Fprintf(w, "  %s:%d  %s%s\n", r.File, r.Line, r.Path, id); err != nil {
			return err
		}
	}
	return nil
}
