// Package hostlog writes to the host's log. A plugin that imports it must be
// granted kvasir:log/1. Lines above a rate are dropped and counted.
package hostlog

import kvasir "github.com/kvasir-router/kvasir/sdk/go"

func init() { kvasir.Import("kvasir:log/1") }

// Debug, Info, Warn and Error write one line.
func Debug(text string) { write(0, text) }
func Info(text string)  { write(1, text) }
func Warn(text string)  { write(2, text) }
func Error(text string) { write(3, text) }
