import assert from "node:assert/strict";
import type { Link } from "../../netlink/mod.ts";
import { SOURCE_SETTINGS, sourcesOf } from "./sources.ts";

const LINK: Link = {
  index: 7,
  name: "veth7",
  mtu: 1500,
  up: true,
  lowerUp: true,
  flags: 0,
  group: 0,
};

Deno.test("sourcesOf() takes a link for a pod's only with all settings of it", () => {
  const { own, any } = SOURCE_SETTINGS;
  assert.equal(sourcesOf({ ...LINK, ...own }), "own");
  assert.equal(sourcesOf({ ...LINK, ...any }), "any");
  for (
    const changes of [
      { group: 1 },
      { ipv4Conf: undefined },
      { ipv4Conf: { ...own.ipv4Conf, rpFilter: 2 } },
      { ipv4Conf: { ...own.ipv4Conf, arpFilter: false } },
    ]
  ) {
    assert.equal(sourcesOf({ ...LINK, ...own, ...changes } as Link), undefined);
  }
});
