;; loops for ever on every batch
(module
  (memory (export "memory") 8)
  (data (i32.const 1024) "{\"name\":\"spin-always\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":[\"waiting\"]}}}")
  (func (export "kvasir_abi") (result i32) (i32.const 0x10000))
  (func (export "kvasir_manifest") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 90)))
  (func (export "kvasir_alloc") (param $size i32) (result i32)
    (i32.const 65536))
  (func $role (export "kvasir_score") (param $p i32) (result i32) (local $i i32)
    (loop $ever (br $ever)) (i32.const 0))
)
