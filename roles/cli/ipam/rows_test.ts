import {
  addressRows,
  blockRows,
  readableBlocks,
} from "../../../lib/ipam/audit/mod.ts";
import assert from "node:assert/strict";
import { poolOf } from "../../../lib/api/mod.ts";
import { poolRows } from "./rows.ts";
import { addressColumns, blockColumns, poolColumns } from "./tables.ts";
import { formatTable } from "../base/table.ts";
import { AGO, block, NOW, pod, pool } from "../../../lib/ipam/audit/testing.ts";

const DUAL = pool("default", [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]);
const SMALL = pool("small", [{ ipv4: "10.3.0.0/27" }]);
const BROKEN = pool("broken", [{ ipv4: "10.4.0.0/30" }]);

const BLOCKS = [
  block(["default", 10, "n2"], {
    ipv4: "10.2.1.64/27",
    ipv6: "fd02::140/123",
  }, { labels: { "coil.cybozu.com/reserved": "true" } }),
  block(["default", 0, "n1"], { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
  block(["default", 1, "n2"], { ipv4: "10.2.0.32/27", ipv6: "fd02::20/123" }),
  block(["small", 0, "n1"], { ipv4: "10.3.0.0/27" }, {
    deletionTimestamp: AGO(0),
  }),
];

const PODS = [
  pod("web-2", "n1", { ipv4: "10.2.0.10", ipv6: "fd02::a" }),
  pod("web-1", "n1", { ipv4: "10.2.0.9", ipv6: "fd02::9" }),
  pod("moved", "n1", { ipv4: "10.2.0.33", ipv6: "fd02::21" }),
  pod("twin-a", "n1", { ipv4: "10.3.0.4" }),
  pod("twin-b", "n1", { ipv4: "10.3.0.4" }),
  pod("lost", "n2", { ipv4: "10.2.0.200", ipv6: "fd02::c8" }),
  pod("other-cni", "n2", { ipv4: "192.0.2.7" }),
];

Deno.test("poolRows() counts from the blocks, not from the status", () => {
  const rows = poolRows([SMALL, DUAL, BROKEN], BLOCKS);
  assert.equal(
    formatTable(poolColumns(NOW), rows),
    `POOL      STATE         BLOCK SIZE   BLOCKS   FREE   NODES   IPV4 TOTAL   IPV4 FREE   AGE
broken    InvalidSpec   -            -        -      0       -            -           3d
default   Available     32           8        6      2       256          192         3d
small     Exhausted     32           1        0      1       32           0           3d
`,
  );
  assert.match(rows[0]?.message ?? "", /too narrow subnet/);
});

Deno.test("poolRows() counts no address as free that another pool has given out", () => {
  const twin = pool("twin", [{ ipv4: "10.3.0.0/27" }]);
  const [small, other] = poolRows([SMALL, twin], BLOCKS);
  assert.equal(small?.name, "small");
  assert.deepEqual(
    [other?.state, other?.blocks?.free, other?.ipv4?.free],
    ["Exhausted", 0, "0"],
  );
  assert.match(other?.message ?? "", /is in AddressPool "small" too/);
});

Deno.test("poolRows() shows IPv6 counts and subnets in wide form", () => {
  const rows = poolRows([DUAL], BLOCKS);
  assert.equal(
    formatTable(poolColumns(NOW), rows, { wide: true, headers: false }),
    "default   Available   32   8   6   2   256   192   256   192   10.2.0.0/24+fd02::/120   3d\n",
  );
});

Deno.test("blockRows() orders by index and counts the pods in each block", () => {
  assert.equal(
    formatTable(blockColumns(NOW), blockRows(BLOCKS, PODS)),
    `BLOCK        POOL      NODE   IPV4           IPV6            USED   SIZE   STATE      AGE
default-0    default   n1     10.2.0.0/27    fd02::/123      2      32     active     5h
default-1    default   n2     10.2.0.32/27   fd02::20/123    1      32     active     5h
default-10   default   n2     10.2.1.64/27   fd02::140/123   0      32     reserved   5h
small-0      small     n1     10.3.0.0/27    -               1      32     deleting   5h
`,
  );
});

Deno.test("blockRows() shows a block that cannot be read", () => {
  const broken = { ...block(["default", 3, "n1"], {}), ipv4: "10.2.0" };
  const [row] = blockRows([broken], []);
  assert.equal(row?.state, "unreadable");
  assert.equal(row?.name, "default-3");
  assert.equal(row?.size, undefined);
});

Deno.test("addressRows() orders by address and says where one does not belong", () => {
  const rows = addressRows({
    pods: PODS,
    blocks: readableBlocks(BLOCKS),
    pools: [DUAL, SMALL].map(poolOf),
  });
  assert.equal(
    formatTable(addressColumns(NOW), rows, { wide: true }),
    `IPV4         IPV6       POD              NODE   BLOCK       POOL      STATE        AGE
10.2.0.9     fd02::9    apps/web-1       n1     default-0   default   ok           60m
10.2.0.10    fd02::a    apps/web-2       n1     default-0   default   ok           60m
10.2.0.33    fd02::21   apps/moved       n1     default-1   default   other-node   60m
10.2.0.200   fd02::c8   apps/lost        n2     -           default   no-block     60m
10.3.0.4     -          apps/twin-a      n1     small-0     small     duplicate    60m
10.3.0.4     -          apps/twin-b      n1     small-0     small     duplicate    60m
192.0.2.7    -          apps/other-cni   n2     -           -         foreign      60m
`,
  );
});

Deno.test("addressRows() of an IPv6 pod sorts after IPv4 and leaves ipv4 out", () => {
  const rows = addressRows({
    pods: [pod("six", "n1", { ipv6: "fd02::5" }), ...PODS],
    blocks: readableBlocks(BLOCKS),
    pools: [poolOf(DUAL)],
  });
  const last = rows.at(-1);
  assert.ok(last);
  assert.deepEqual(last, {
    ipv6: "fd02::5",
    namespace: "apps",
    pod: "six",
    node: "n1",
    pool: "default",
    block: "default-0",
    state: "ok",
    since: AGO(1),
  });
});
