// Links between documents lead to a file, and to a heading of it.
import assert from "node:assert/strict";
import * as path from "node:path";
import { readPages, ROOT, withoutCode } from "./pages.ts";

/** The anchors of a page's headings, as forges make them. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutCode(text).matchAll(/^#+ (.*)$/gm)) {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
    const anchor = words.toLowerCase().replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-");
    const isTaken = (count: number) => anchors.has(`${anchor}-${count}`);
    let count = 1;
    while (isTaken(count)) count++;
    anchors.add(anchors.has(anchor) ? `${anchor}-${count}` : anchor);
  }
  return anchors;
}

/** Why a link of a page leads nowhere; undefined when it does not. */
async function faultOf(
  from: string,
  link: string,
): Promise<string | undefined> {
  const [file = "", anchor] = link.split("#");
  const to = file === "" ? from : path.join(path.dirname(from), file);
  const info = await Deno.stat(ROOT + to).catch(() => undefined);
  if (info === undefined) return `${from}: ${link} does not exist`;
  if (anchor === undefined || !to.endsWith(".md")) return undefined;
  const text = await Deno.readTextFile(ROOT + to);
  return anchorsOf(text).has(anchor) ? undefined : `${from}: ${link}`;
}

Deno.test("links between documents lead to a file, and to a heading of it", async () => {
  const links = (await readPages()).flatMap(({ path, text }) =>
    [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = ""]) => ({ path, link }))
  ).filter(({ link }) => !/^https?:/.test(link));
  assert.ok(links.length > 200, `${links.length} links`);
  const faults = await Promise.all(
    links.map(({ path, link }) => faultOf(path, link)),
  );
  assert.deepEqual(faults.filter((fault) => fault !== undefined), []);
});

Deno.test("headings of the same words have anchors of their own", () => {
  assert.deepEqual(
    [...anchorsOf("# A `b`\n## A b\n### A, [b](c.md)\n```sh\n# no\n```\n")],
    ["a-b", "a-b-1", "a-b-2"],
  );
});
