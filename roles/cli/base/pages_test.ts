import assert from "node:assert/strict";
import { KubeClient, NAMESPACES } from "../../../lib/kube/mod.ts";
import { type FakeAnswer, FakeTransport } from "../../../lib/kube/testing.ts";
import { listPages } from "./pages.ts";

const EXPIRED = { status: 410, body: { kind: "Status", reason: "Expired" } };

function pageOf(names: readonly string[], next = ""): FakeAnswer {
  const items = names.map((name) => ({ metadata: { name } }));
  return {
    body: { metadata: { resourceVersion: "1", continue: next }, items },
  };
}

/** Names and requests of a list whose server answers so, in turn. */
async function listed(...answers: readonly FakeAnswer[]) {
  let asked = 0;
  const transport = new FakeTransport(() => answers[asked++] ?? EXPIRED);
  using client = new KubeClient(transport);
  const names = await listPages(client, NAMESPACES, {
    keep: ({ metadata }) => metadata?.name,
    pageSize: 2,
  });
  const queries = transport.requests.map(({ path }) => path.split("?")[1]);
  return { names, queries };
}

Deno.test("listPages() goes from page to page", async () => {
  assert.deepEqual(await listed(pageOf(["a", "b"], "t1"), pageOf(["c"])), {
    names: ["a", "b", "c"],
    queries: ["limit=2", "limit=2&continue=t1"],
  });
});

Deno.test("listPages() lists all at once when the pages have expired, and nothing twice", async () => {
  assert.deepEqual(
    await listed(pageOf(["a", "gone"], "t1"), EXPIRED, pageOf(["a", "b"])),
    {
      names: ["a", "b"],
      queries: ["limit=2", "limit=2&continue=t1", undefined],
    },
  );
});

Deno.test("listPages() fails where a list is refused as too old that has no pages before", async () => {
  await assert.rejects(listed(EXPIRED), { status: 410 });
});
