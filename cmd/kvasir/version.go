package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/tokenizer/hf"
)

func versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "print the version and what is built in", Args: cobra.NoArgs}
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		v := map[string]any{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
			"hf": hf.Available()}
		if *output == "json" {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
		}
		in := "not included (build with -tags hf)"
		if hf.Available() {
			in = "included"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "kvasir %s %s %s/%s, Hugging Face tokenizers %s\n", version,
			runtime.Version(), runtime.GOOS, runtime.GOARCH, in)
		return err
	}
	return c
}
