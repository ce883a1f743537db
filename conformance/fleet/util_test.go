package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// leaveSilently sends a POST and closes the connection after d without reading an answer.
func leaveSilently(url string, body any, d time.Duration) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", bytes.NewReader(b))
	if err != nil {
		return err
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err == nil {
		res.Body.Close()
		return fmt.Errorf("the hanging engine answered %d", res.StatusCode)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
