package scenario

import (
	"math"
	"reflect"
)

// student is the 97.5 % quantile of Student's distribution by degrees of freedom;
// from the last on it is taken as that of the last.
var student = [...]float64{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
	10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093,
	20: 2.086}

// interval returns the mean of v and half the width of its 95 % confidence interval.
func interval(v []float64) (mu, half float64) {
	mu = mean(v)
	if len(v) < 2 {
		return mu, 0
	}
	sum := 0.0
	for _, x := range v {
		sum += (x - mu) * (x - mu)
	}
	n := float64(len(v))
	return mu, student[min(len(v)-1, len(student)-1)] * math.Sqrt(sum/(n-1)/n)
}

// summarize sets the means and intervals of every field of Metrics.
func (r *Row) summarize() {
	mu, half := reflect.ValueOf(&r.Mean).Elem(), reflect.ValueOf(&r.CI).Elem()
	v := make([]float64, len(r.Runs))
	for f := range mu.NumField() {
		for i := range r.Runs {
			v[i] = reflect.ValueOf(&r.Runs[i]).Elem().Field(f).Float()
		}
		m, h := interval(v)
		mu.Field(f).SetFloat(m)
		half.Field(f).SetFloat(h)
	}
}
