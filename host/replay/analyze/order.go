package analyze

import (
	"container/heap"

	"github.com/kvasir-router/kvasir/host/replay"
)

// answerTime is taken for the time from a request to the end of its answer where a trace
// does not say, in seconds: it decides which conversations' turns follow each other.
const answerTime = 10

// turn is the next request of one conversation.
type turn struct {
	at   float64 // seconds
	conv int
	n    int
}

// turns is a heap by time.
type turns []turn

func (t turns) Len() int { return len(t) }
func (t turns) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].conv < t[j].conv
}
func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push and Pop implement heap.Interface.
func (t *turns) Push(x any) { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// inOrder returns the requests of conversations in the order of sending. Conversations
// of a trace without times all begin at once, which is the hardest order for small caches.
func inOrder(all []replay.Conversation) (out []replay.Request) {
	var next turns
	for i := range all {
		if len(all[i].Requests) > 0 {
			next = append(next, turn{at: all[i].Start, conv: i})
		}
	}
	heap.Init(&next)
	for next.Len() > 0 {
		t := heap.Pop(&next).(turn)
		requests := all[t.conv].Requests
		out = append(out, requests[t.n])
		if t.n++; t.n < len(requests) {
			t.at += answerTime + requests[t.n].Think
			heap.Push(&next, t)
		}
	}
	return out
}
