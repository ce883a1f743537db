//! A scorer that prefers the endpoint with the longest match until a queue builds up there.

kvasir::scorer!("scorer-rust", ["matched_ratio", "waiting"], |b, out| {
    let (hit, queue) = (b.f32(0), b.f32(1));
    for i in 0..out.len() {
        out[i] = 2.0 * hit[i] - queue[i] / (queue[i] + 4.0);
    }
    kvasir::OK
});
