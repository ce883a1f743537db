;; picks one candidate twice
(module
  (memory (export "memory") 8)
  (data (i32.const 1024) "{\"name\":\"pick-twice\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"pick\":{\"columns\":[]}}}")
  (func (export "kvasir_abi") (result i32) (i32.const 0x10000))
  (func (export "kvasir_manifest") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 79)))
  (func (export "kvasir_alloc") (param $size i32) (result i32)
    (i32.const 65536))
  (func $role (export "kvasir_pick") (param $p i32) (result i32) (local $i i32)
    (local.set $i (i32.add (local.get $p) (i32.load offset=56 (local.get $p))))
    (i32.store (local.get $i) (i32.const 0))
    (if (i32.eq (i32.load offset=4 (local.get $p)) (i32.const 7)) (then (i32.store (local.get $i) (i32.const 2)) (i32.store offset=4 (local.get $i) (i32.const 0)) (i32.store offset=8 (local.get $i) (i32.const 0))))
    (i32.const 0))
)
