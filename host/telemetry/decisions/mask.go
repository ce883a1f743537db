package decisions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errMask reports an invalid rule of a mask.
var errMask = errors.New("decisions: a mask has \"/input/…\" or {op: remove|upsert, path, value}")

// mask removes or replaces the fields that the configuration and the policy name. As
// in OPA, only fields under input and result can be masked; erased lists what was
// removed and masked what was replaced. If the policy's mask fails, input and result
// are left out whole, because what it would have hidden is unknown.
func (l *Log) mask(e *Entry, m map[string]any) {
	rules := make([]any, len(l.cfg.Mask))
	for i, p := range l.cfg.Mask {
		rules[i] = p
	}
	if e.Policy != nil {
		more, err := e.Policy.Mask(m)
		if err == nil {
			rules = append(rules, more...)
			err = checkRules(more)
		}
		if err != nil {
			delete(m, "input")
			delete(m, "result")
			m["mask_error"], m["erased"] = err.Error(), []string{"/input", "/result"}
			return
		}
	}
	var erased, masked []string
	for _, r := range rules {
		op, path, value := ruleOf(r)
		switch parts := pointer(path); {
		case op == "remove":
			if _, ok := remove(m, parts); ok {
				erased = append(erased, path)
			}
		case op == "upsert" && upsert(m, parts, value):
			masked = append(masked, path)
		}
	}
	if len(erased) > 0 {
		slices.Sort(erased)
		m["erased"] = slices.Compact(erased)
	}
	if len(masked) > 0 {
		slices.Sort(masked)
		m["masked"] = slices.Compact(masked)
	}
}

// ruleOf reads a rule; op is "" if the rule is invalid.
func ruleOf(r any) (op, path string, value any) {
	switch r := r.(type) {
	case string:
		op, path = "remove", r
	case map[string]any:
		op, _ = r["op"].(string)
		path, _ = r["path"].(string)
		value = r["value"]
	}
	if op != "remove" && op != "upsert" || !maskable(path) {
		return "", "", nil
	}
	return op, path, value
}

func maskable(path string) bool {
	for _, top := range []string{"/input", "/result"} {
		if path == top || strings.HasPrefix(path, top+"/") {
			return true
		}
	}
	return false
}

func checkRules(rules []any) error {
	for _, r := range rules {
		if op, _, _ := ruleOf(r); op == "" {
			return fmt.Errorf("%w, not %.100v", errMask, r)
		}
	}
	return nil
}

// CheckMask reports which of paths cannot be masked.
func CheckMask(paths []string) error {
	for _, p := range paths {
		if !maskable(p) {
			return fmt.Errorf("%q: want a path under /input or /result, such as /input/tenant/user", p)
		}
	}
	return nil
}

// pointer splits a JSON pointer (RFC 6901).
func pointer(path string) []string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts
}

// remove deletes the value at parts below v and returns v without it. ok is false if
// there is no such value.
func remove(v any, parts []string) (out any, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		child, there := v[parts[0]]
		if !there {
			return v, false
		}
		if len(parts) == 1 {
			delete(v, parts[0])
			return v, true
		}
		v[parts[0]], ok = remove(child, parts[1:])
		return v, ok
	case []any:
		i, there := place(v, parts[0])
		if !there {
			return v, false
		}
		if len(parts) == 1 {
			return slices.Delete(v, i, i+1), true
		}
		v[i], ok = remove(v[i], parts[1:])
		return v, ok
	}
	return v, false
}

// upsert sets the value at parts below v and creates the objects on the way. It
// reports false if another value is in the way.
func upsert(v any, parts []string, value any) bool {
	switch v := v.(type) {
	case map[string]any:
		if len(parts) == 1 {
			v[parts[0]] = value
			return true
		}
		if _, there := v[parts[0]]; !there {
			v[parts[0]] = map[string]any{}
		}
		return upsert(v[parts[0]], parts[1:], value)
	case []any:
		i, there := place(v, parts[0])
		if there && len(parts) == 1 {
			v[i] = value
			return true
		}
		return there && upsert(v[i], parts[1:], value)
	}
	return false
}

// place returns the index in a list that a part of a path names.
func place(list []any, part string) (i int, ok bool) {
	i, err := strconv.Atoi(part)
	return i, err == nil && i >= 0 && i < len(list)
}
