;; adds in its first 5000 calls, and takes square roots in all others: within its fuel, but for several milliseconds
(module
  (memory (export "memory") 8)
  (global $calls (mut i32) (i32.const 0))
  (data (i32.const 1024) "{\"name\":\"drift\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":[\"waiting\"]}}}")
  (func (export "kvasir_abi") (result i32) (i32.const 0x10000))
  (func (export "kvasir_manifest") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 84)))
  (func (export "kvasir_alloc") (param $size i32) (result i32)
    (i32.const 65536))
  (func $role (export "kvasir_score") (param $p i32) (result i32) (local $i i32) (local $k i32) (local $x i64) (local $y f64)
    (if (i32.load offset=4 (local.get $p)) (then
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (if (i32.gt_u (global.get $calls) (i32.const 5000)) (then
        (local.set $y (f64.const 1e300))
        (loop $again
          (local.set $y (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (local.get $y))))))))))))))))))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $again (i32.lt_u (local.get $k) (i32.const 50000)))))
      (else
        (loop $again
          (local.set $x (i64.add (local.get $x) (i64.const 3)))
          (local.set $x (i64.add (local.get $x) (i64.const 3)))
          (local.set $x (i64.add (local.get $x) (i64.const 3)))
          (local.set $x (i64.add (local.get $x) (i64.const 3)))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $again (i32.lt_u (local.get $k) (i32.const 2000))))))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (i32.load offset=4 (local.get $p))))
      (f32.store (i32.add (i32.add (local.get $p) (i32.load offset=56 (local.get $p))) (i32.shl (local.get $i) (i32.const 2)))
        (f32.neg (f32.load (i32.add (i32.add (local.get $p) (i32.load offset=52 (local.get $p))) (i32.shl (local.get $i) (i32.const 2))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $next)))
    (i32.const 0))
)
