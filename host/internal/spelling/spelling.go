// Package spelling guesses which known word a wrong one was meant to be.
package spelling

// Nearest returns the word of known that differs from word by at most two
// letters and least, the first of several, and "" if there is none.
func Nearest(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(k, word); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two short words in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			up, cost := row[j], 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(up+1, row[j-1]+1, diagonal+cost)
			diagonal = up
		}
	}
	return row[len(b)]
}
