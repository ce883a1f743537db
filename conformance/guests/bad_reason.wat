;; drops with a reason it does not have
(module
  (memory (export "memory") 8)
  (data (i32.const 1024) "{\"name\":\"bad-reason\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"filter\":{\"columns\":[\"waiting\"],\"reasons\":[\"no\"]}}}")
  (func (export "kvasir_abi") (result i32) (i32.const 0x10000))
  (func (export "kvasir_manifest") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 107)))
  (func (export "kvasir_alloc") (param $size i32) (result i32)
    (i32.const 65536))
  (func $role (export "kvasir_filter") (param $p i32) (result i32) (local $i i32)
    (memory.fill (i32.add (local.get $p) (i32.load offset=56 (local.get $p))) (i32.const 0) (i32.shl (i32.load offset=4 (local.get $p)) (i32.const 2)))
    (if (i32.eq (i32.load offset=4 (local.get $p)) (i32.const 7)) (then (i32.store (i32.add (local.get $p) (i32.load offset=56 (local.get $p))) (i32.const 2))))
    (i32.const 0))
)
