//! The reference guest of abi/vectors, in Rust.
use kvasir::{Batch, Orders, Published, Scores, Status, ERROR, OK};

kvasir::export! {
    manifest: concat!(
        r#"{"name":"vectors","version":"1.0.0","abi":"1.0","roles":{"#,
        r#""filter":{"columns":["adapter_state"],"reasons":["one","two","three"]},"#,
        r#""score":{"columns":["uncached_tokens","endpoint_id","kv_usage"],"request":["objective","tenant_hash"],"terms":["a","b"]},"#,
        r#""pick":{"columns":["colocated"]},"#,
        r#""observe":{"columns":["endpoint_row","ttft_ms","cached_tokens"]},"configure":{},"idle":{}},"#,
        r#""publishes":[{"name":"vectors/ttft","default":0},{"name":"vectors/seen","default":0}],"state_version":1}"#
    ),
    filter: filter, score: score, pick: pick, observe: observe, configure: configure, idle: idle,
}

fn filter(b: &Batch, drops: &mut [u32]) -> Status {
    drops.copy_from_slice(b.u32(0));
    OK
}

fn score(b: &Batch, out: &mut Scores) -> Status {
    let mut fixed = b.prompt_tokens as f32
        + b.max_tokens as f32
        + b.priority
        + (b.now_ms as u64 & 255) as f32
        + (b.session_hash & 0xffff) as f32
        + (b.seed >> 48) as f32
        + b.slots() as f32;
    for k in 0..b.requests() {
        fixed += (b.req_u64(k) & 0xff) as f32;
    }
    for i in 0..b.len() {
        out[i] = fixed;
        for k in 0..b.columns() {
            out[i] += ((k + 1) * (b.u32(k)[i] >> 16)) as f32;
        }
    }
    for t in 0..2 {
        if let Some(term) = out.term(t) {
            for (x, c) in term.iter_mut().zip(b.f32(0)) {
                *x = t as f32 + c;
            }
        }
    }
    OK
}

fn pick(b: &Batch, out: &mut Orders) -> Status {
    for slot in 0..b.slots() {
        let value = |i: u32| {
            b.slot_scores(slot)[i as usize]
                + (2 * b.slots()..b.columns())
                    .map(|k| b.f32(k)[i as usize])
                    .sum::<f32>()
        };
        let mut order: Vec<u32> = (0..b.len() as u32)
            .filter(|&i| b.slot_mask(slot)[i as usize] == 1)
            .collect();
        order.sort_by(|&x, &y| value(y).total_cmp(&value(x)));
        out.set(slot, &order);
    }
    OK
}

fn observe(b: &Batch, out: &mut Published) -> Status {
    for (p, add) in [Some(b.f32(1)), None].into_iter().enumerate() {
        let column = out.column(p as u32);
        for (i, &row) in b.u32(0).iter().enumerate() {
            let x = &mut column[row as usize];
            if x.is_nan() {
                *x = 0.0; // nothing of it yet
            }
            *x += add.map_or(1.0, |c| c[i]);
        }
    }
    OK
}

fn configure(json: &[u8]) -> Status {
    if json.len() >= 2 && json[0] == b'{' && json[json.len() - 1] == b'}' {
        OK
    } else {
        ERROR
    }
}

fn idle(fuel: u32) -> Status {
    if fuel > 0 {
        OK
    } else {
        ERROR
    }
}
