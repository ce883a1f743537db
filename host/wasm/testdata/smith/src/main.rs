//! smith SEED COUNT writes COUNT modules made by wasm-smith to standard output,
//! each behind its length, u32 little endian. They are within the feature set
//! of Kvasir's plugins, import nothing and end by themselves. Equal arguments give
//! equal modules.

use std::io::{self, BufWriter, Write};

use arbitrary::Unstructured;
use wasm_smith::{Config, Module};

/// Turns of loops and calls that a module may take before it traps. Frames of
/// metered modules are larger, so that deep recursion must end before the stack.
const TICKS: u32 = 60;

fn config(rng: &mut SplitMix) -> Config {
    Config {
        allow_start_export: true,
        canonicalize_nans: true, // which NaN an operator gives is left open
        bulk_memory_enabled: true,
        multi_value_enabled: true,
        reference_types_enabled: true,
        saturating_float_to_int_enabled: true,
        sign_extension_ops_enabled: true,
        simd_enabled: true,
        exceptions_enabled: false,
        extended_const_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        relaxed_simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        compact_imports_enabled: false,
        disallow_traps: rng.next() % 4 != 0,
        export_everything: true,
        generate_custom_sections: rng.next() % 4 == 0,
        max_imports: 0,
        min_memories: 1,
        max_memories: 1,
        max_memory32_bytes: 2 << 16,
        memory_max_size_required: true,
        max_tables: 3,
        max_table_elements: 200,
        table_max_size_required: true,
        min_funcs: 1,
        max_funcs: 8,
        max_types: 12,
        max_globals: 8,
        max_exports: 20,
        max_data_segments: 4,
        max_element_segments: 4,
        max_elements: 16,
        max_instructions: 40 + (rng.next() % 400) as usize,
        min_uleb_size: 1 + (rng.next() % 5 == 0) as u8 * 4,
        ..Config::default()
    }
}

/// SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }
}

fn main() -> io::Result<()> {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().expect("smith SEED COUNT"))
        .collect();
    let [seed, count] = args[..] else {
        panic!("smith SEED COUNT")
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for i in 0..count {
        let mut rng = SplitMix(seed.wrapping_add(i).wrapping_mul(0x2545f4914f6cdd1d));
        let bytes: Vec<u8> = (0..512 + rng.next() % 8192)
            .map(|_| rng.next() as u8)
            .collect();
        let config = config(&mut rng);
        let mut module =
            Module::new(config, &mut Unstructured::new(&bytes)).expect("bytes are enough");
        module
            .ensure_termination(TICKS)
            .expect("no invalid functions");
        let code = module.to_bytes();
        out.write_all(&(code.len() as u32).to_le_bytes())?;
        out.write_all(&code)?;
    }
    out.flush()
}
