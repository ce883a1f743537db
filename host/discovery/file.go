package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// File finds endpoints in a JSON file, which another program rewrites: a list of
// URLs, or the list of target groups that Prometheus reads (file_sd):
//
//	["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
//	[{"targets": ["10.0.0.1:8000", "10.0.0.2:8000"], "labels": {"any": "thing"}}]
//
// Read, if it is not nil, parses another format.
type File struct {
	Path string
	Read func(document []byte) ([]string, error)
}

// maxFile bounds the file.
const maxFile = 1 << 20

// Find implements Source.
func (f *File) Find(context.Context) ([]string, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("discovery: %s is larger than %d bytes", f.Path, maxFile)
	}
	read := Parse
	if f.Read != nil {
		read = f.Read
	}
	urls, err := read(b)
	if err != nil && !errors.Is(err, ErrEmpty) {
		err = fmt.Errorf("%s: %w", f.Path, err)
	}
	return urls, err
}

// Lines parses a list of endpoints, one a line; empty lines are ignored.
func Lines(text string) ([]string, error) {
	var urls []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			urls = append(urls, line)
		}
	}
	return normal(urls)
}

// Parse parses the JSON formats of [File].
func Parse(b []byte) ([]string, error) {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		return normal(list)
	}
	var groups []struct {
		Targets []string `json:"targets"`
	}
	if err := json.Unmarshal(b, &groups); err != nil {
		return nil, fmt.Errorf("discovery: want a list of URLs or of {\"targets\": [...]}: %v", err)
	}
	list = nil // drop what was parsed before the error
	for _, g := range groups {
		list = append(list, g.Targets...)
	}
	return normal(list)
}
