package system.log_test

test_mask if data.system.log.mask == {"/input/tenant/user", "/input/request/labels"}
