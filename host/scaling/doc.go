// Package scaling keeps pools at the size that their demand needs: it measures
// offered work, runs an [autoscale.Controller] for each group of pools, carries out
// what controllers decide, and lets requests wait for the first endpoint of a pool
// that has none.
//
// Changes of the configuration come in two steps. [NewPlan] reports everything
// that can be refused and changes nothing; [Manager.Apply] puts a plan in force
// and cannot fail.
package scaling
