package scheduler

import (
	"cmp"
	"slices"
)

// Normalize reports how the scores of a profile's scorers are made comparable before they
// are weighted and added.
type Normalize string

const (
	// NormalizeOff adds scores unchanged; they must have the same unit.
	NormalizeOff Normalize = "off"
	// MinMax maps the worst candidate's score to 0 and the best one's to 1. An outlier
	// moves all others close together.
	MinMax Normalize = "minmax"
	// Rank uses only the order: 0 for the worst, 1 for the best, equal steps between;
	// candidates with equal scores get the mean of their ranks.
	Rank Normalize = "rank"
)

func (n Normalize) on() bool    { return n == MinMax || n == Rank }
func (n Normalize) valid() bool { return n == "" || n == NormalizeOff || n.on() }

// of returns scores normalized to [0, 1], in the memory of dst if it is large enough.
// If all are equal, all are 0. scores must be finite.
func (n Normalize) of(scores, dst []float32) []float32 {
	if cap(dst) < len(scores) {
		dst = make([]float32, (len(scores)+15)&^15)
	}
	dst = dst[:len(scores)]
	clear(dst)
	if len(scores) == 0 {
		return dst
	}
	least, most := slices.Min(scores), slices.Max(scores)
	if least == most {
		return dst
	}
	if n == Rank {
		ranks(scores, dst)
		return dst
	}
	// In float64: the range of two float32 may be no float32.
	span := float64(most) - float64(least)
	for i, s := range scores {
		dst[i] = float32((float64(s) - float64(least)) / span)
	}
	return dst
}

// ranks sets dst[i] to the share of the other candidates that candidate i is above;
// equal ones count half.
func ranks(scores, dst []float32) {
	var mem [256]int32
	order := mem[:0]
	for i := range scores {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(scores[a], scores[b]) })
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && scores[order[j]] == scores[order[i]] {
			j++
		}
		r := float32(float64(i+j-1) / 2 / float64(len(order)-1))
		for _, at := range order[i:j] {
			dst[at] = r
		}
		i = j
	}
}
