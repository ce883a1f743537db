#!/bin/sh
# Installs the references of the tokenizer tests in
# ${KVASIR_CACHE:-$HOME/.cache/kvasir}: real tokenizer files, Hugging Face
# tokenizers in a separate Python environment, and texts in about ninety
# languages (Django's translations, BSD licence). It is safe to run again and
# keeps existing files.
set -eu
die() { echo "deps: $*" >&2; exit 1; }

cd "$(dirname "$0")"
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
tokenizers=0.23.1
django=5.2.1

sh fetch-tokenizers.sh

venv=$cache/venv-tokenizers
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "tokenizers $tokenizers" ]; then
	command -v python3 >/dev/null || die "python3 is not in PATH"
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/python" -m pip install -q --disable-pip-version-check "tokenizers==$tokenizers"
	echo "tokenizers $tokenizers" >"$venv/stamp"
fi

texts=$cache/texts
if [ "$(cat "$texts/stamp" 2>/dev/null)" != "django $django" ]; then
	rm -rf "$texts"
	mkdir -p "$texts/.wheel"
	"$venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$texts/.wheel" "Django==$django"
	"$venv/bin/python" - "$texts" <<'EOF'
import glob, os, sys, zipfile

out = sys.argv[1]
for wheel in glob.glob(out + "/.wheel/*.whl"):
    z = zipfile.ZipFile(wheel)
    for name in z.namelist():
        part = name.split("/")
        if name.endswith("/LC_MESSAGES/django.po"):
            with open(os.path.join(out, "%s-%s.po" % (part[-3], part[-5])), "wb") as f:
                f.write(z.read(name))
EOF
	rm -rf "$texts/.wheel"
	echo "django $django" >"$texts/stamp"
fi
