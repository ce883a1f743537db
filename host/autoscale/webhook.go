package autoscale

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Webhook is a Driver that posts each order to a URL: the JSON that a Command
// gets, with the headers
//
//	Idempotency-Key: the order's key
//	X-Kvasir-Timestamp: seconds since 1970
//	X-Kvasir-Signature: sha256=HEX
//
// where HEX is HMAC-SHA256 of "timestamp.body" under Secret. The receiver
// compares it, and refuses old timestamps. A status of 200 to 299 accepts the
// order; its body, if any, is an Answer. Redirects are not followed.
type Webhook struct {
	URL    string
	Secret []byte
	Client *http.Client     // nil = one that all webhooks share
	Now    func() time.Time // nil = time.Now
}

// List implements Driver.
func (w *Webhook) List(ctx context.Context, pool string) (*Answer, error) {
	return w.post(ctx, request{"list", &Order{Pool: pool, Current: []string{}}})
}

// Apply implements Driver.
func (w *Webhook) Apply(ctx context.Context, o *Order) (*Answer, error) {
	return w.post(ctx, request{"apply", o})
}

var webhookClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Warm implements Warmer, as Command does.
func (w *Webhook) Warm(ctx context.Context, pool string, m Machine) error {
	_, err := w.post(ctx, request{"warm", &Order{Pool: pool, Current: []string{m.ID}}})
	return err
}

func (w *Webhook) post(ctx context.Context, q request) (*Answer, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("autoscale: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("autoscale: webhook: %w", err)
	}
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	stamp := strconv.FormatInt(now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Kvasir-Timestamp", stamp)
	req.Header.Set("X-Kvasir-Signature", "sha256="+Signature(w.Secret, stamp, body))
	if q.Key != "" {
		req.Header.Set("Idempotency-Key", q.Key)
	}
	c := w.Client
	if c == nil {
		c = webhookClient
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("autoscale: webhook: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("autoscale: webhook: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		t := tail{most: 256}
		t.Write(b)
		return nil, fmt.Errorf("autoscale: webhook: status %d%s", resp.StatusCode, t.quoted())
	}
	return parseAnswer(b, false)
}

// Signature returns the value that a webhook's receiver compares, without
// "sha256=".
func Signature(secret []byte, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(timestamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
