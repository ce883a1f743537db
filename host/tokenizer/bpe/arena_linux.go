package bpe

import "syscall"

// adviseHuge requests huge pages. A refusal affects speed only.
func adviseHuge(b []byte) {
	const madvHugepage = 14 // MADV_HUGEPAGE of <linux/mman.h>
	if len(b) > 0 {
		_ = syscall.Madvise(b, madvHugepage)
	}
}
