//! What a placement plugin in Rust uses. A scorer:
//!
//! ```
//! kvasir::scorer!("prefix-first", ["matched_ratio", "waiting"], |b, out| {
//!     let (hit, queue) = (b.f32(0), b.f32(1));
//!     for i in 0..out.len() {
//!         out[i] = 2.0 * hit[i] - queue[i] / (queue[i] + 4.0);
//!     }
//!     kvasir::OK
//! });
//! ```
//!
//! [`export!`] has all roles. The host calls one instance by one thread at a time,
//! has several instances that share no memory, and may drop any of them: statics are
//! caches, never the truth. `abi/SPEC.md` is the reference.
#![no_std]

pub mod abi;
mod batch;
mod memory;

pub use batch::{Batch, Orders, Published, Scores};
#[doc(hidden)]
pub use memory::{alloc, argument, config};

/// What a role returns: [`OK`], [`ABSTAIN`], or [`ERROR`], which is a fault.
pub type Status = u32;

/// The result is written.
pub const OK: Status = abi::STATUS_OK;
/// No opinion on this batch; not a fault.
pub const ABSTAIN: Status = abi::STATUS_ABSTAIN;
/// A fault: the instance is discarded.
pub const ERROR: Status = abi::STATUS_ERROR;

/// Exports a plugin: its manifest, JSON as abi/SPEC.md section 3 has it, and a
/// function per role, each optional, in this order:
///
/// ```
/// # use kvasir::{Batch, Orders, Published, Scores, Status, OK};
/// fn filter(b: &Batch, drops: &mut [u32]) -> Status { drops.fill(0); OK }
/// fn score(b: &Batch, out: &mut Scores) -> Status { out.fill(0.0); OK }
/// fn pick(b: &Batch, out: &mut Orders) -> Status { out.set(0, &[]); OK }
/// fn observe(b: &Batch, out: &mut Published) -> Status { OK }
/// fn configure(json: &[u8]) -> Status { OK }
/// fn idle(fuel: u32) -> Status { OK }
/// kvasir::export! {
///     manifest: r#"{"name":"all","version":"1","abi":"1.0","roles":{"score":{"columns":[]}}}"#,
///     filter: filter, score: score, pick: pick, observe: observe, configure: configure, idle: idle,
/// }
/// ```
#[macro_export]
macro_rules! export {
    (manifest: $manifest:expr, $(filter: $filter:path,)? $(score: $score:path,)? $(pick: $pick:path,)? $(observe: $observe:path,)?
     $(configure: $configure:path,)? $(idle: $idle:path,)?) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn kvasir_abi() -> u32 {
            $crate::abi::MAJOR << 16 | $crate::abi::MINOR
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn kvasir_manifest() -> u64 {
            const TEXT: &str = $manifest;
            (TEXT.as_ptr() as u64) << 32 | TEXT.len() as u64
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn kvasir_alloc(size: u32) -> u32 {
            $crate::alloc(size)
        }
        $(#[unsafe(no_mangle)]
        pub extern "C" fn kvasir_filter(p: u32) -> u32 {
            let (b, out) = unsafe { $crate::Batch::at(p) };
            $filter(b, unsafe { out.drops() })
        })?
        $(#[unsafe(no_mangle)]
        pub extern "C" fn kvasir_score(p: u32) -> u32 {
            let (b, out) = unsafe { $crate::Batch::at(p) };
            $score(b, &mut unsafe { out.scores() })
        })?
        $(#[unsafe(no_mangle)]
        pub extern "C" fn kvasir_pick(p: u32) -> u32 {
            let (b, out) = unsafe { $crate::Batch::at(p) };
            $pick(b, &mut unsafe { out.orders() })
        })?
        $(#[unsafe(no_mangle)]
        pub extern "C" fn kvasir_observe(p: u32) -> u32 {
            let (b, out) = unsafe { $crate::Batch::at(p) };
            $observe(b, &mut unsafe { out.published() })
        })?
        $(#[unsafe(no_mangle)]
        pub extern "C" fn kvasir_configure(p: u32) -> u32 {
            $configure(unsafe { $crate::config(p) })
        })?
        $(#[unsafe(no_mangle)]
        pub extern "C" fn kvasir_idle(p: u32) -> u32 {
            $idle(unsafe { $crate::argument(p + $crate::abi::IDLE_FUEL_HINT) })
        })?
    };
}

/// Exports a plugin that scores and has nothing else.
#[macro_export]
macro_rules! scorer {
    ($name:literal, [$first:literal $(, $column:literal)*], |$b:ident, $out:ident| $body:block) => {
        fn kvasir_scorer($b: &$crate::Batch, $out: &mut $crate::Scores) -> $crate::Status $body
        $crate::export! {
            manifest: concat!(r#"{"name":""#, $name, r#"","version":"0.1.0","abi":"1.0","roles":{"score":{"columns":[""#, $first,
                $(r#"",""#, $column,)* r#""]}}}"#),
            score: kvasir_scorer,
        }
    };
}
