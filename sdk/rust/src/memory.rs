use core::slice::from_raw_parts;

use crate::abi;

/// The arena: fresh pages, in powers of two, since pages are never given back and
/// the allocator of std takes its own.
#[cfg(target_arch = "wasm32")]
pub fn alloc(size: u32) -> u32 {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static BASE: AtomicU32 = AtomicU32::new(0);
    static PAGES: AtomicU32 = AtomicU32::new(0);
    let need = size.div_ceil(1 << 16).max(1).next_power_of_two();
    if need > PAGES.load(Relaxed) {
        let old = core::arch::wasm32::memory_grow::<0>(need as usize);
        if old == usize::MAX {
            return 0;
        }
        BASE.store((old << 16) as u32, Relaxed);
        PAGES.store(need, Relaxed);
    }
    BASE.load(Relaxed)
}

/// Only a host has an arena.
#[cfg(not(target_arch = "wasm32"))]
pub fn alloc(_: u32) -> u32 {
    0
}

/// The u32 at an address.
///
/// # Safety
/// p lies in an argument the host gave a role.
pub unsafe fn argument(p: u32) -> u32 {
    unsafe { *(p as usize as *const u32) }
}

/// The JSON text that configure gets.
///
/// # Safety
/// p is the argument the host gave to configure.
pub unsafe fn config<'a>(p: u32) -> &'a [u8] {
    unsafe {
        let (off, len) = (
            argument(p + abi::CONFIGURE_DATA_OFF),
            argument(p + abi::CONFIGURE_DATA_LEN),
        );
        from_raw_parts((p + off) as usize as *const u8, len as usize)
    }
}
