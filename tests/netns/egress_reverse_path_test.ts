import assert from "node:assert/strict";
import {
  openReversePath,
  strictReversePaths,
} from "../../lib/egress/kernel/reverse_path.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

netnsTest(
  "openReversePath() opens links for any source, loosens strict ones, and touches no others",
  async () => {
    await using pod = await tempNetns("pod");
    using netns = Netns.open(pod.path);
    const names = ["strict", "off", "answers", "loose", "plain", "other"];
    const before = [1, 0, 1, 2, 0, 1];
    for (const [i, name] of names.entries()) {
      await pod.ip("link", "add", name, "type", "veth");
      const value = `net.ipv4.conf.${name}.rp_filter=${before[i]}`;
      await pod.exec("sysctl", "-qw", value);
    }
    const values = async () => {
      const keys = names.map((name) => `net.ipv4.conf.${name}.rp_filter`);
      const text = await pod.exec("sysctl", "-n", ...keys);
      return text.trim().split("\n").map(Number);
    };
    const sysctl = (name: string) => `net/ipv4/conf/${name}/rp_filter`;
    assert.deepEqual(await values(), before);
    assert.deepEqual(
      strictReversePaths(netns, [...names, "absent"]),
      ["strict", "answers", "other"].map(sysctl),
    );
    const links = {
      open: ["strict", "off"],
      loose: ["answers", "loose", "plain"],
    };
    assert.deepEqual(openReversePath(netns, links), [
      `set sysctl "${sysctl("strict")}" to 0`,
      `set sysctl "${sysctl("answers")}" to 2`,
    ]);
    assert.deepEqual(await values(), [0, 0, 2, 2, 0, 1]);
    assert.deepEqual(openReversePath(netns, links), [], "a second time");
  },
);
