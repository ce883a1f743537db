package main

import (
	"os"
	"regexp"
	"strings"
)

// documents are the pages whose paths must exist.
var documents = []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"}

// aPath is a quoted path below one of the tree's top folders.
var aPath = regexp.MustCompile("`((?:abi|cmd|conformance|examples|host|plugins|policies|sdk|\\.ci)/[A-Za-z0-9_./-]+)`")

// paths finds files and folders that a document names and that do not exist.
func (c *checker) paths(document string) {
	text, err := os.ReadFile(document)
	if err != nil {
		c.add("document", document, "%v", err)
		return
	}
	for _, m := range aPath.FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(strings.TrimSuffix(m[1], "/")); err != nil {
			c.add("document", document, "%s does not exist", m[1])
		}
	}
}
