import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { Prefix } from "../../../lib/inet/mod.ts";
import { convert } from "../convert/conversion.ts";
import { digestOf, formatManifest, inspectManifest } from "./manifest.ts";

function manifest(): string {
  return formatManifest(convert({
    pools: [{
      name: "default",
      blockSizeBits: 5,
      subnets: [Prefix.parse("10.1.0.0/24")],
    }, {
      name: "web",
      blockSizeBits: 1,
      subnets: [Prefix.parse("10.2.0.0/24")],
    }],
    blocks: [
      { pool: "default", node: "n1", prefix: Prefix.parse("10.1.0.32/27") },
      { pool: "default", node: "gone", prefix: Prefix.parse("10.1.0.64/27") },
    ],
    addresses: [],
  }, {
    nodes: new Set(["n1"]),
    namespaces: [{ metadata: { name: "web" } }],
    pods: [],
  }));
}

const TEXT = `# Coil v1's state for Coil v2, made by coil migrate dump.
# Apply it before Coil v2's workloads start:
#   kubectl apply --server-side --field-manager=coil-migrator -f THIS_FILE
# See docs/migrate.md. The next line shows whether the file is whole and unchanged.
# objects: 4, sha256: DIGEST
#
# What to know before it is applied:
# warning: node gone: it has 1 block in v1, but there is no Node of that name; they are left out and can be given to other nodes
---
apiVersion: coil.cybozu.com/v2
kind: AddressBlock
metadata:
  name: default-1-v1
  labels:
    coil.cybozu.com/node: n1
    coil.cybozu.com/pool: default
    coil.cybozu.com/reserved: "true"
  annotations:
    coil.cybozu.com/dumped: f776310c34112b87
index: 1
ipv4: 10.1.0.32/27
---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata:
  name: default
spec:
  blockSizeBits: 5
  subnets:
    - ipv4: 10.1.0.0/24
---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata:
  name: web
spec:
  blockSizeBits: 1
  subnets:
    - ipv4: 10.2.0.0/24
---
apiVersion: v1
kind: Namespace
metadata:
  name: web
  annotations:
    coil.cybozu.com/pool: web
`;

Deno.test("formatManifest() writes blocks, pools and namespaces, and what to know", () => {
  const text = manifest();
  assert.equal(text.replace(digestOf(text), "DIGEST"), TEXT);
  assert.equal(text, manifest());
  assert.equal(parseAllDocuments(text).length, 4);
});

Deno.test("inspectManifest() tells an intact manifest from others", () => {
  const text = manifest();
  assert.deepEqual(inspectManifest(text), {
    state: "intact",
    digest: digestOf(text),
  });
  const edited = text.replace("10.1.0.0/24", "10.1.0.0/23");
  assert.deepEqual(inspectManifest(edited), { state: "edited" });
  assert.deepEqual(inspectManifest(text.replace("# warning", "# Warning")), {
    state: "edited",
  });
  assert.deepEqual(inspectManifest("apiVersion: v1\n"), { state: "foreign" });
  assert.deepEqual(inspectManifest(""), { state: "foreign" });
});

Deno.test("inspectManifest() knows a manifest that ends anywhere too early", () => {
  const text = manifest();
  const start = text.indexOf("---");
  for (let length = start; length < text.length; length++) {
    const { state } = inspectManifest(text.slice(0, length));
    assert.notEqual(state, "intact", text.slice(0, length));
  }
  const withoutLast = text.slice(0, text.lastIndexOf("---"));
  assert.deepEqual(inspectManifest(withoutLast), {
    state: "cut short",
    expected: 4,
    found: 3,
  });
});
