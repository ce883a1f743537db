package policy

import (
	"encoding/json"
	"fmt"
)

// equalJSON compares two values as JSON.
func equalJSON(a, b any) error {
	x, err := json.Marshal(a)
	if err != nil {
		return err
	}
	y, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if string(x) != string(y) {
		return fmt.Errorf("%s and %s", x, y)
	}
	return nil
}
