;; does one thing many times, by the number of candidates (wat2wasm prices.wat)
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "kvasir:log/1" "log" (func $log (param i32 i32 i32)))
  (import "kvasir:metrics/1" "add" (func $metric (param i32 i32 f64)))
  (memory (export "memory") 8)
  (data (i32.const 1024) "{\"name\":\"prices\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":[\"waiting\"]}},\"imports\":[\"kvasir:log/1\",\"kvasir:metrics/1\"]}")
  (func (export "kvasir_abi") (result i32) (i32.const 0x10000))
  (func (export "kvasir_manifest") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 131)))
  (func (export "kvasir_alloc") (param $size i32) (result i32) (i32.const 65536))
  (func (export "kvasir_score") (param $p i32) (result i32) (local $i i32) (local $k i32) (local $n i32) (local $x i64)
    (local.set $n (i32.load offset=4 (local.get $p)))
    (if (i32.eq (local.get $n) (i32.const 100)) (then (loop $again
      (local.set $x (i64.div_u (i64.const 0x7fffffffffffffff) (i64.or (local.get $x) (i64.const 3)))) (local.set $x (i64.div_u (i64.const 0x7fffffffffffffff) (i64.or (local.get $x) (i64.const 3))))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 600))))))
    (if (i32.eq (local.get $n) (i32.const 101)) (then (loop $again
      (drop (call $random (i32.const 131072) (i32.const 16384)))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 15))))))
    (if (i32.eq (local.get $n) (i32.const 102)) (then (loop $again
      (drop (call $random (i32.const 131072) (i32.const 8)))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 300))))))
    (if (i32.eq (local.get $n) (i32.const 103)) (then (loop $again
      (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 131072)))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 300))))))
    (if (i32.eq (local.get $n) (i32.const 104)) (then (loop $again
      (drop (call $yield))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 300))))))
    (if (i32.eq (local.get $n) (i32.const 105)) (then (loop $again
      (i32.store (i32.const 131072) (i32.const 135168)) (i32.store (i32.const 131076) (i32.const 64)) (drop (call $write (i32.const 1) (i32.const 131072) (i32.const 1) (i32.const 131080)))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 150))))))
    (if (i32.eq (local.get $n) (i32.const 106)) (then (loop $again
      (drop (call $poll (i32.const 131072) (i32.const 140000) (i32.const 64) (i32.const 150000)))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 60))))))
    (if (i32.eq (local.get $n) (i32.const 107)) (then (loop $again
      (call $log (i32.const 2) (i32.const 1024) (i32.const 64))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 150))))))
    (if (i32.eq (local.get $n) (i32.const 108)) (then (loop $again
      (call $metric (i32.const 1033) (i32.const 6) (f64.const 1))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $k) (i32.const 150))))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (f32.store (i32.add (i32.add (local.get $p) (i32.load offset=56 (local.get $p))) (i32.shl (local.get $i) (i32.const 2))) (f32.const 0))
      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $next)))
    (i32.const 0)))
