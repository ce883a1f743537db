package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestPush_revoke checks that a key is revoked at once, and the next request with it is
// refused, while three clients push, one after another, modules that take long to
// compile and to check. The 99th percentile of 60 is their longest, in which other load of
// the machine shows; a revocation that waits for pushes is late in each of three rounds.
func TestPush_revoke(t *testing.T) {
	keys := 60
	if testing.Short() {
		keys = 15
	}
	d := harness.StartDev(t, "--engines", "1")
	admin := &harness.Router{Admin: d.Admin, Token: d.AdminToken}
	issue := func(body string) issued {
		t.Helper()
		status, b := adminDo(t, admin, "POST", "/v1/keys", []byte(body))
		if status != http.StatusOK && status != http.StatusCreated {
			t.Fatalf("issue: %d %s", status, b)
		}
		var k issued
		if err := json.Unmarshal(b, &k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	// Modules that take long to compile, to call and to start.
	modules := [][]byte{goScorer(t)}
	for _, name := range []string{"arithmetic", "spin_start"} {
		code, err := (&guests.Guest{File: name}).Code()
		if err != nil {
			t.Fatal(err)
		}
		modules = append(modules, code)
	}
	var stop atomic.Bool
	var pushed [3]atomic.Int64
	var wg sync.WaitGroup
	for p := range pushed {
		k := issue(fmt.Sprintf(`{"tenant":"ops","user":"pusher%d","scopes":["plugin:push"]}`, p))
		r := &harness.Router{Admin: d.Admin, Token: k.Key}
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				code := modules[i%3]
				code = append(code[:len(code):len(code)], 0, 6, 1, 'n', byte(p), byte(i), byte(i>>8), 0)
				status, b := adminDo(t, r, "POST", fmt.Sprintf("/v1/plugins?name=p%d", p), code)
				if status != http.StatusOK && status != http.StatusUnprocessableEntity || strings.Contains(string(b), "forbidden") {
					t.Errorf("push: %d %s", status, b)
				}
				pushed[p].Add(1)
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	harness.Await(t, 60*time.Second, "the first push of each", func() bool {
		return pushed[0].Load() > 0 && pushed[1].Load() > 0 && pushed[2].Load() > 0
	})
	revoke := func() (took []time.Duration) {
		for range keys {
			k := issue(`{"tenant":"acme"}`)
			began := time.Now()
			if status, b := adminDo(t, admin, "POST", "/v1/keys/"+k.ID+"/revoke", nil); status != http.StatusOK {
				t.Fatalf("revoke: %d %s", status, b)
			}
			took = append(took, time.Since(began))
			if got := harness.Get(d.URL+"/v1/models", k.Key); got != http.StatusUnauthorized {
				t.Fatalf("the next request with a revoked key: %d", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		slices.Sort(took)
		return took
	}
	for range 3 {
		took := revoke()
		p99 := took[len(took)*99/100]
		t.Logf("%d revocations during %d, %d and %d pushes: median %v, p99 %v", keys, pushed[0].Load(), pushed[1].Load(),
			pushed[2].Load(), took[len(took)/2], p99)
		if p99 <= maxRevoke {
			return
		}
	}
	t.Errorf("a revocation takes more than %v at the 99th percentile, three times", maxRevoke)
}
