package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/rules"
)

func tokenizeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tokenize",
		Short: "print the token ids of a text or a chat request",
		Long: "kvasir tokenize --dir DIR --chat FILE renders a chat request body with the model's template and prints the\n" +
			"token ids as the router counts them; --text FILE encodes a text without a template. FILE - is standard input.",
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	dir := c.Flags().String("dir", "", "directory with the model's tokenizer files")
	chat := c.Flags().String("chat", "", "file with the body of a chat request")
	text := c.Flags().String("text", "", "file with a text")
	with := c.Flags().String("with", "auto", "auto, bpe or hf")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if *dir == "" || (*chat == "") == (*text == "") {
			return exit(exitUsage, "want --dir DIR and either --chat FILE or --text FILE")
		}
		if *with != "auto" && *with != "bpe" && *with != "hf" {
			return exit(exitUsage, "--with %s: want auto, bpe or hf", *with)
		}
		b, err := readInput(*chat + *text)
		if err != nil {
			return exit(exitUsage, "%v", err)
		}
		ids, err := rules.Tokenize(*dir, *with, b, *chat != "")
		if err != nil {
			return &exitError{exitNo, err}
		}
		if *output == "json" {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"count": len(ids), "ids": ids, "with": *with})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), ids)
		return err
	}
	return c
}

func readInput(name string) ([]byte, error) {
	if name == "-" {
		return readAll(os.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// maxInput bounds what tokenize reads, in bytes.
const maxInput = 256 << 20

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("more than %d bytes", maxInput)
	}
	return b, err
}
