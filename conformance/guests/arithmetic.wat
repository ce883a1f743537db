;; divides a million times in every call with candidates, which its fuel allows
(module
  (memory (export "memory") 8)
  (data (i32.const 1024) "{\"name\":\"arithmetic\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":[\"waiting\"]}}}")
  (func (export "kvasir_abi") (result i32) (i32.const 0x10000))
  (func (export "kvasir_manifest") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 89)))
  (func (export "kvasir_alloc") (param $size i32) (result i32)
    (i32.const 65536))
  (func $role (export "kvasir_score") (param $p i32) (result i32) (local $i i32) (local $k i32) (local $x i64)
    (if (i32.load offset=4 (local.get $p)) (then
      (loop $again
        (local.set $x (i64.div_u (i64.const 0x7fffffffffffffff) (i64.or (local.get $x) (i64.const 3))))
        (local.set $x (i64.div_u (i64.const 0x7fffffffffffffff) (i64.or (local.get $x) (i64.const 3))))
        (local.set $k (i32.add (local.get $k) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $k) (i32.const 500000))))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (i32.load offset=4 (local.get $p))))
      (f32.store (i32.add (i32.add (local.get $p) (i32.load offset=56 (local.get $p))) (i32.shl (local.get $i) (i32.const 2)))
        (f32.neg (f32.load (i32.add (i32.add (local.get $p) (i32.load offset=52 (local.get $p))) (i32.shl (local.get $i) (i32.const 2))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $next)))
    (i32.const 0))
)
