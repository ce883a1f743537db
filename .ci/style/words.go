package main

// phraseTable is this file, whose phrases are not checked.
const phraseTable = ".ci/style/words.go"

// identifierWords are words that no identifier has, with what to write instead.
var identifierWords = map[string]string{
	"bury":       "closeDead or remove",
	"deed":       "auditedAction",
	"dress":      "set or add",
	"generation": "revision of rules, epoch of a slot",
	"grave":      "tombstone",
	"hammer":     "stress",
	"heard":      "accepted",
	"heed":       "apply",
	"heir":       "replacement",
	"heirs":      "replacements",
	"mend":       "fix",
	"mends":      "fixes",
	"nursery":    "compile worker",
	"odd":        "aliased, or what is odd about it",
	"pardon":     "readmit",
	"poke":       "wake or notify",
	"tell":       "write, report or log",
	"telling":    "disclosing",
	"tells":      "reports",
	"told":       "reported, disclosed or logged",
	"unheard":    "ignored",
}

// exceptions are identifiers that keep such a word, with the reason.
var exceptions = map[string]string{
	"generationTag": "a tag of chat templates",
}

// phrases are what no comment, error or help text says, in lower case, with what
// to write instead.
var phrases = map[string]string{
	"any more":         "say what is, not what was",
	"costs nobody":     "fails no request",
	"every fault with": "every error, with",
	"is heard":         "is accepted",
	"is told":          "receives, or reads",
	"not heard":        "ignored",
	"nobody":           "no request, no client, no endpoint",
	"stands twice":     "duplicate",
	"was told":         "received, or read",
	"who asks":         "the caller, the client",
}
