use core::ops::{Deref, DerefMut};
use core::slice::{from_raw_parts, from_raw_parts_mut};

use crate::abi;

/// One decision's candidates (or, for observe, outcomes) as the host laid them out.
#[repr(C)]
pub struct Batch {
    size: u32,
    n: u32,
    stride: u32,
    flags: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    reserved: u32,
    /// Output tokens asked for, 0 = unknown.
    pub max_tokens: u32,
    /// Higher = sooner.
    pub priority: f32,
    /// Unix milliseconds, which stand still during a call.
    pub now_ms: f64,
    /// Keyed hash of the session, 0 = none.
    pub session_hash: u64,
    ncols: u32,
    cols_off: u32,
    out_off: u32,
    req_off: u32,
    /// The only source of chance.
    pub seed: u64,
    nreq: u32,
    terms_off: u32,
    /// Place to fill: 0 serve or decode, 1 prefill.
    pub slot: u32,
    nslots: u32,
    k: u32,
    out_size: u32,
}

// The layout is that of SPEC.md, or this does not compile.
const _: () = {
    assert!(size_of::<Batch>() == abi::BATCH_HEADER_SIZE as usize);
    assert!(core::mem::offset_of!(Batch, now_ms) == abi::BATCH_NOW_MS as usize);
    assert!(core::mem::offset_of!(Batch, seed) == abi::BATCH_SEED as usize);
    assert!(core::mem::offset_of!(Batch, out_size) == abi::BATCH_OUT_SIZE as usize);
};

/// Where a role's results go. Each of its methods may be called once per call.
#[doc(hidden)]
pub struct Out<'a>(&'a Batch);

impl Batch {
    /// The batch at an address, and where its results go.
    ///
    /// # Safety
    /// p is what the host gave a role.
    #[doc(hidden)]
    pub unsafe fn at<'a>(p: u32) -> (&'a Batch, Out<'a>) {
        let b = unsafe { &*(p as usize as *const Batch) };
        (b, Out(b))
    }

    fn addr(&self, off: u32) -> usize {
        self as *const Batch as usize + off as usize
    }

    // Columns, request slots and endpoints are only read during a call, and no
    // result overlaps them.
    fn words<T>(&self, off: u32, n: u32) -> &[T] {
        unsafe { from_raw_parts(self.addr(off) as *const T, n as usize) }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.n as usize
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Columns, with those that pick has before the manifest's.
    pub fn columns(&self) -> u32 {
        self.ncols
    }

    /// Request columns.
    pub fn requests(&self) -> u32 {
        self.nreq
    }

    /// Column k of the manifest, [N] (filter, score, observe).
    pub fn f32(&self, k: u32) -> &[f32] {
        self.words(self.cols_off + 4 * self.stride * k, self.n)
    }

    /// Column k of the manifest, [N] (filter, score, observe).
    pub fn u32(&self, k: u32) -> &[u32] {
        self.words(self.cols_off + 4 * self.stride * k, self.n)
    }

    /// Column k of the manifest of pick, [N].
    pub fn pick_f32(&self, k: u32) -> &[f32] {
        self.f32(2 * self.nslots + k)
    }

    /// Request column k.
    pub fn req_u64(&self, k: u32) -> u64 {
        self.words(self.req_off + 8 * k, 1)[0]
    }

    /// Request column k.
    pub fn req_u32(&self, k: u32) -> u32 {
        self.req_u64(k) as u32
    }

    /// Places a picker fills.
    pub fn slots(&self) -> u32 {
        self.nslots
    }

    /// Summed scores of a slot, [N] (pick).
    pub fn slot_scores(&self, slot: u32) -> &[f32] {
        self.f32(slot)
    }

    /// Which candidates may take a slot, [N] of 0 and 1 (pick).
    pub fn slot_mask(&self, slot: u32) -> &[u32] {
        self.u32(self.nslots + slot)
    }

    /// What an observer's rows are about: the endpoint_id of every endpoint.
    pub fn endpoints(&self) -> &[u32] {
        self.words(self.terms_off, self.nslots)
    }
}

impl<'a> Out<'a> {
    unsafe fn slice<T>(&self, off: u32, n: u32) -> &'a mut [T] {
        unsafe { from_raw_parts_mut(self.0.addr(off) as *mut T, n as usize) }
    }

    /// # Safety
    /// Called once, of filter.
    pub unsafe fn drops(self) -> &'a mut [u32] {
        unsafe { self.slice(self.0.out_off, self.0.n) }
    }

    /// # Safety
    /// Called once, of score.
    pub unsafe fn scores(self) -> Scores<'a> {
        Scores {
            scores: unsafe { self.slice(self.0.out_off, self.0.n) },
            out: self,
        }
    }

    /// # Safety
    /// Called once, of pick.
    pub unsafe fn orders(self) -> Orders<'a> {
        Orders(self)
    }

    /// # Safety
    /// Called once, of observe.
    pub unsafe fn published(self) -> Published<'a> {
        Published(self)
    }
}

/// What a scorer writes: a slice of [N], higher is better.
pub struct Scores<'a> {
    scores: &'a mut [f32],
    out: Out<'a>,
}

impl Scores<'_> {
    /// Term t, [N], if the host asks for terms. The scores must not depend on it.
    pub fn term(&mut self, t: u32) -> Option<&mut [f32]> {
        let b = self.out.0;
        if b.flags & abi::FLAG_EXPLAIN == 0 || b.terms_off == 0 {
            return None;
        }
        Some(unsafe { self.out.slice(b.terms_off + 4 * b.stride * t, b.n) })
    }
}

impl Deref for Scores<'_> {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        self.scores
    }
}

impl DerefMut for Scores<'_> {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.scores
    }
}

/// What a picker writes.
pub struct Orders<'a>(Out<'a>);

impl Orders<'_> {
    /// How long an order may be.
    pub fn wanted(&self) -> usize {
        self.0 .0.k as usize
    }

    /// Sets the order of a slot, best first; none = no opinion. What is beyond
    /// wanted is left out.
    pub fn set(&mut self, slot: u32, order: &[u32]) {
        let b = self.0 .0;
        let out: &mut [u32] = unsafe { self.0.slice(b.out_off + slot * (b.k + 1) * 4, b.k + 1) };
        let n = order.len().min(b.k as usize);
        out[0] = n as u32;
        out[1..=n].copy_from_slice(&order[..n]);
    }
}

/// What an observer publishes.
pub struct Published<'a>(Out<'a>);

impl Published<'_> {
    /// Published column p, by row of [`Batch::endpoints`]. It arrives as NaN; what
    /// is left so keeps its value.
    pub fn column(&mut self, p: u32) -> &mut [f32] {
        let b = self.0 .0;
        unsafe { self.0.slice(b.out_off + 4 * b.k * p, b.nslots) }
    }
}
