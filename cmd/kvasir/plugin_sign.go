package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/plugsign"
)

func pluginKeygen() *cobra.Command {
	c := &cobra.Command{
		Use: "keygen FILE", Short: "create a key to sign plugins", Args: cobra.ExactArgs(1),
		Long: "Writes the private key to FILE (PKCS #8 in PEM, mode 0600): keep it where plugins are released. Add the\n" +
			"public key to the configuration of routers, which then accept plugins that the key signed. Sign with\n" +
			"kvasir plugin sign.",
	}
	name := c.Flags().String("name", "release", "name of the key in configuration, lists and logs")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(checkOutput(*output), checkPluginName(*name)); err != nil {
			return err
		}
		key, err := plugsign.NewKeyFile(args[0])
		switch {
		case errors.Is(err, fs.ErrExist):
			return exit(exitNo, "%s exists: choose another file, keys are never overwritten", args[0])
		case err != nil:
			return exit(exitNo, "%v", err)
		}
		if *output == "json" {
			return printValue(cmd.OutOrStdout(), map[string]any{"file": args[0], "id": plugsign.KeyID(key), "name": *name,
				"public": plugsign.FormatKey(key)})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(),
			"%s holds the private key %s. To trust it, add to the configuration of routers:\n\n"+
				"plugin_signatures:\n  required: true\n  keys:\n    %s: %q\n\nkvasir plugin sign FILE.wasm --key %s\n",
			args[0], plugsign.KeyID(key), *name, plugsign.FormatKey(key), args[0])
		return err
	}
	return c
}

func pluginSign() *cobra.Command {
	c := &cobra.Command{
		Use: "sign FILE", Short: "sign a plugin", Args: cobra.ExactArgs(1),
		Long: "Appends the signature to the module, so that it is copied and pushed with it. Do not change a module\n" +
			"after signing: build, check, then sign. Several keys may sign one module.",
	}
	keyFile := c.Flags().String("key", "", "private key, from kvasir plugin keygen or openssl genpkey -algorithm ed25519")
	out := c.Flags().StringP("out", "o", "", "file to write; default FILE")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if *keyFile == "" {
			return exit(exitUsage, "missing --key: the file of a private key (create one with kvasir plugin keygen)")
		}
		if *out == "" {
			*out = args[0]
		}
		code, err := readModule(args[0])
		if err != nil {
			return err
		}
		key, err := plugsign.ReadKeyFile(*keyFile)
		if err != nil {
			return exit(exitUsage, "%v", err)
		}
		signed, err := plugsign.Sign(code, key)
		if err != nil {
			return exit(exitNo, "%s: %v", args[0], err)
		}
		path, err := filepath.Abs(*out)
		if err != nil {
			return exit(exitUsage, "%s: %v", *out, err)
		}
		if err := replaceModule(path, signed); err != nil {
			return err
		}
		id, sum := plugsign.KeyID(key.Public().(ed25519.PublicKey)), sha256.Sum256(signed)
		digest := hex.EncodeToString(sum[:])
		if *output == "json" {
			return printValue(cmd.OutOrStdout(), map[string]any{"file": *out, "key": id, "digest": digest})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: signed by key %s\n", *out, short(digest), id)
		return err
	}
	return c
}
