"""Writes tokens.json: keys and tokens made by PyJWT and joserfc, and tokens that
an attacker would make. Run it in its folder, with "pip install pyjwt[crypto]
joserfc": python3 tokens.py > tokens.json"""
import base64
import hashlib
import hmac
import json

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jwt as rfc
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

NOW = 1767323045  # 2026-01-02T03:04:05Z, the tests' clock
ISS, AUD = "https://idp.example", "kvasir"
BASE = {"iss": ISS, "aud": AUD, "sub": "u1", "exp": NOW + 600, "iat": NOW - 10, "tenant": "acme",
        "groups": ["eng", "ml"], "scope": "infer plugin:push", "class": "phi", "realm": {"roles": ["r1"]}}

keys = {
    "rsa": rsa.generate_private_key(65537, 2048), "rsa2": rsa.generate_private_key(65537, 2048),
    "small": rsa.generate_private_key(65537, 1024), "ec": ec.generate_private_key(ec.SECP256R1()),
    "ec384": ec.generate_private_key(ec.SECP384R1()), "ec521": ec.generate_private_key(ec.SECP521R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(), "evil": rsa.generate_private_key(65537, 2048),
}
KIND = {"rsa": RSAKey, "rsa2": RSAKey, "small": RSAKey, "ec": ECKey, "ec384": ECKey, "ec521": ECKey, "ed": OKPKey, "evil": RSAKey}


def pem(k):
    return k.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def pub(name):
    return keys[name].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def jwk(name, **extra):
    return {**KIND[name].import_key(pub(name).decode()).as_dict(private=False), "kid": name, **extra}


def py(key, alg, claims=None, **header):
    return jwt.encode({**BASE, **(claims or {})}, pem(keys[key]), alg, headers={"kid": key, **header})


def joserfc(key, alg, claims=None, **header):
    k = KIND[key].import_key(pem(keys[key]).decode())
    return rfc.encode({"alg": alg, "kid": key, "typ": "JWT", **header}, {**BASE, **(claims or {})}, k, algorithms=[alg])


def b64(b):
    return base64.urlsafe_b64encode(b if isinstance(b, bytes) else b.encode()).rstrip(b"=").decode()


def raw(header, payload, key="rsa"):
    """A token of any text, signed as RS256."""
    head = b64(header if isinstance(header, str) else json.dumps(header))
    body = b64(payload if isinstance(payload, str) else json.dumps(payload))
    sig = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign((head + "." + body).encode(), keys[key])
    return head + "." + body + "." + b64(sig)


def hs256(secret, **header):
    text = b64(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "rsa", **header})) + "." + b64(json.dumps(BASE))
    return text + "." + b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def without(*names):
    return {k: v for k, v in BASE.items() if k not in names}


H = {"alg": "RS256", "kid": "rsa", "typ": "JWT"}
good = py("rsa", "RS256")
head, body, sig = good.split(".")
jwks = {"keys": [jwk("rsa"), jwk("rsa2", alg="RS256", use="sig"), jwk("ec"), jwk("ec384"), jwk("ec521"), jwk("ed"), jwk("small"),
                 {**jwk("evil"), "kid": "enc", "use": "enc"}, {"kty": "oct", "kid": "oct", "k": b64("secret-secret-secret-secret-secret")},
                 {"kty": "unknown", "kid": "x"}]}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
pad = "x" * 8200
out = {
    "now": NOW, "jwks": jwks, "one_key": {"keys": [jwk("rsa")]}, "rotated": {"keys": [jwk("rsa2")]},
    "good": {
        "pyjwt rs256": good, "pyjwt es256": py("ec", "ES256"), "pyjwt eddsa": py("ed", "EdDSA"), "pyjwt ps256": py("rsa", "PS256"),
        "pyjwt rs512": py("rsa", "RS512"), "pyjwt es384": py("ec384", "ES384"), "pyjwt es512": py("ec521", "ES512"),
        "joserfc rs256": joserfc("rsa", "RS256"), "joserfc es256": joserfc("ec", "ES256"), "joserfc ps384": joserfc("rsa", "PS384"),
        "key with alg": py("rsa2", "RS256"), "at+jwt": py("rsa", "RS256", typ="at+jwt"), "no typ": raw({"alg": "RS256", "kid": "rsa"}, BASE),
        "application/jwt": py("rsa", "RS256", typ="application/JWT"),
        "audience in a list": py("rsa", "RS256", {"aud": ["other", AUD]}), "float times": py("rsa", "RS256", {"exp": NOW + 60.5}),
        "scopes in a list": py("rsa", "RS256", {"scope": ["infer", "plugin:push"]}), "just expired, within the leeway": py("rsa", "RS256", {"exp": NOW - 29}),
        "not yet, within the leeway": py("rsa", "RS256", {"nbf": NOW + 29}), "jku is not looked at": py("rsa", "RS256", jku="http://evil.example/keys"),
    },
    "no_kid": raw({"alg": "RS256"}, BASE),
    "minimal": raw(H, {"iss": ISS, "aud": AUD, "exp": NOW + 60, "tenant": "acme"}),
    "bad": {
        "algorithm": {
            "none": b64('{"alg":"none"}') + "." + body + ".", "None": b64('{"alg":"None","kid":"rsa"}') + "." + body + "." + sig,
            "hs256 with the public key in PEM": hs256(pub("rsa")), "hs256 with the jwk": hs256(json.dumps(jwk("rsa")).encode()),
            "hs256 with the oct key of the set": hs256(b"secret-secret-secret-secret-secret", kid="oct"), "hs256, empty secret": hs256(b""),
            "lower case": raw({**H, "alg": "rs256"}, BASE), "no alg": b64('{"kid":"rsa"}') + "." + body + "." + sig,
            "not pinned": py("rsa", "RS384"),
        },
        "key": {
            "kid of a path": raw({**H, "kid": "../../../../dev/null"}, BASE), "kid of sql": raw({**H, "kid": "x' UNION SELECT 'key"}, BASE),
            "unknown kid": raw({**H, "kid": "evil"}, BASE, "evil"), "no kid and many keys": raw({"alg": "RS256"}, BASE),
            "long kid": raw({**H, "kid": "k" * 3000}, BASE), "1024 bits": py("small", "RS256"), "encryption key": raw({**H, "kid": "enc"}, BASE, "evil"),
            "key of another algorithm": raw({**H, "kid": "ec"}, BASE), "ps256 by a key for rs256": joserfc("rsa2", "PS256"),
            "oct key": raw({**H, "kid": "oct"}, BASE),
        },
        "signature": {
            "signed by somebody else": raw(H, BASE, "evil"), "signed by another key of the set": raw(H, BASE, "rsa2"),
            "jwk in the header": raw({**H, "jwk": jwk("evil")}, BASE, "evil"), "payload of another token": head + "." + b64(json.dumps({**BASE, "tenant": "globex"})) + "." + sig,
            "header changed": b64('{"alg":"RS256","kid":"rsa","typ":"JWT","x":1}') + "." + body + "." + sig, "no signature": head + "." + body + ".",
            "short signature": head + "." + body + "." + sig[:-2], "es256 of zeros": b64('{"alg":"ES256","kid":"ec"}') + "." + body + "." + b64(bytes(64)),
            "es256 of n and n": b64('{"alg":"ES256","kid":"ec"}') + "." + body + "." + b64(bytes.fromhex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551" * 2)),
            "es256 as der": b64('{"alg":"ES256","kid":"ec"}') + "." + body + "." + b64(keys["ec"].sign((b64('{"alg":"ES256","kid":"ec"}') + "." + body).encode(), ec.ECDSA(__import__("cryptography").hazmat.primitives.hashes.SHA256()))),
        },
        "header": {
            "crit": raw({**H, "crit": ["exp"]}, BASE), "b64 false": raw({**H, "b64": False, "crit": ["b64"]}, BASE), "crit of nothing": raw({**H, "crit": []}, BASE),
            "crit that is a word": raw({**H, "crit": "exp"}, BASE),
            "nested": raw({**H, "cty": "JWT"}, BASE), "typ of a logout": raw({**H, "typ": "logout+jwt"}, BASE), "typ that is a number": raw({**H, "typ": 1}, BASE),
        },
        "malformed": {
            "duplicate alg": raw('{"alg":"RS256","alg":"none","kid":"rsa"}', BASE), "duplicate kid": raw('{"alg":"RS256","kid":"rsa","kid":"ec"}', BASE),
            "duplicate tenant": raw(H, json.dumps(BASE)[:-1] + ',"tenant":"globex"}'), "duplicate within": raw(H, json.dumps(BASE)[:-1] + ',"x":{"a":1,"a":2}}'),
            "escaped duplicate": raw(H, json.dumps(BASE)[:-1] + ',"tenan\\u0074":"globex"}'), "data after": raw(H, json.dumps(BASE) + "{}"), "a list": raw(H, "[]"), "null": raw(H, "null"),
            "not json": raw(H, "hello"), "deep": raw(H, json.dumps(BASE)[:-1] + ',"x":' + "[" * 100 + "]" * 100 + "}"),
            "two parts": head + "." + body, "four parts": good + ".x", "empty header": "." + body + "." + sig, "padding": head + "." + body + "==." + sig,
            "plain base64": head + "." + body[:-1] + "+." + sig, "space": good + " ", "line end": head + "\n." + body + "." + sig,
            "jws in json": json.dumps({"payload": body, "protected": head, "signature": sig}), "jwe": "a.b.c.d.e", "empty": "", "dots": "..",
            "last bits of the signature": good[:-1] + ALPHABET[ALPHABET.index(good[-1]) | 1 if ALPHABET.index(good[-1]) % 2 == 0 else ALPHABET.index(good[-1]) - 1],
            "carriage return": head + "." + body + "." + sig + "\r", "line end within": head + "." + body[:8] + "\n" + body[8:] + "." + sig,
        },
        "too_large": {"huge": raw(H, {**BASE, "pad": pad}), "huge signature": good + "A" * 9000},
        "issuer": {
            "other": py("rsa", "RS256", {"iss": "https://evil.example"}), "slash": py("rsa", "RS256", {"iss": ISS + "/"}), "none": raw(H, without("iss")),
            "number": raw(H, {**BASE, "iss": 1}), "list": raw(H, {**BASE, "iss": [ISS]}), "case": raw(H, {**BASE, "iss": ISS.upper()}),
        },
        "audience": {
            "other": py("rsa", "RS256", {"aud": "other"}), "none": raw(H, without("aud")), "prefix": py("rsa", "RS256", {"aud": "kvasir2"}),
            "empty list": raw(H, {**BASE, "aud": []}), "object": raw(H, {**BASE, "aud": {"kvasir": 1}}), "number in the list": raw(H, {**BASE, "aud": [1, AUD]}),
        },
        "expired": {"long ago": py("rsa", "RS256", {"exp": NOW - 3600}), "at the end of the leeway": py("rsa", "RS256", {"exp": NOW - 30}), "zero": raw(H, {**BASE, "exp": 0})},
        "not_yet_valid": {"nbf": py("rsa", "RS256", {"nbf": NOW + 31}), "iat": py("rsa", "RS256", {"iat": NOW + 3600})},
        "claims": {
            "no exp": raw(H, without("exp")), "exp null": raw(H, {**BASE, "exp": None}), "exp a string": raw(H, {**BASE, "exp": str(NOW + 60)}),
            "exp infinite": raw(H, json.dumps(without("exp"))[:-1] + ',"exp":1e400}'), "exp far": raw(H, {**BASE, "exp": 10**15}), "exp negative": raw(H, {**BASE, "exp": -1}),
            "nbf a list": raw(H, {**BASE, "nbf": [1]}), "no tenant": raw(H, without("tenant")), "tenant a number": raw(H, {**BASE, "tenant": 5}),
            "tenant a list": raw(H, {**BASE, "tenant": ["acme"]}), "tenant with a space": raw(H, {**BASE, "tenant": "a b"}), "tenant with a line": raw(H, {**BASE, "tenant": "a\nb"}),
            "user an object": raw(H, {**BASE, "sub": {}}), "groups a number": raw(H, {**BASE, "groups": 1}), "group with a quote": raw(H, {**BASE, "groups": ['a"b']}),
            "scope null in a list": raw(H, {**BASE, "scope": [None]}), "300 groups": raw(H, {**BASE, "groups": ["g%d" % i for i in range(300)]}),
            "label with a space": raw(H, {**BASE, "class": "p hi"}), "label a number": raw(H, {**BASE, "class": 7}),
        },
        "tenant": {"other": py("rsa", "RS256", {"tenant": "initech"})},
    },
}
print(json.dumps(out, indent=1, ensure_ascii=True))
