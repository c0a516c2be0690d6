import assert from "node:assert/strict";
import { flagsMarkdown } from "../../lib/flags/testing.ts";
import { INSTALLER_FLAGS, parseInstallerFlags } from "./flags.ts";

const INFO = {
  program: "coil-installer",
  version: "0",
  about: "",
  positionals: "[install|uninstall]",
};

function parse(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
) {
  return parseInstallerFlags({ args, env: (name) => env[name] }, INFO);
}

Deno.test("docs/roles/coil-installer.md lists the flags", async () => {
  const docs = new URL("../../docs/roles/coil-installer.md", import.meta.url);
  const text = await Deno.readTextFile(docs);
  assert.ok(text.includes(flagsMarkdown(INSTALLER_FLAGS).trim()));
});

Deno.test("coil-installer without anything has upstream's places", () => {
  const { confName, etcDirectory, binDirectory, command } = parse([]);
  assert.deepEqual({ confName, etcDirectory, binDirectory, command }, {
    confName: undefined,
    etcDirectory: "/host/etc/cni/net.d",
    binDirectory: "/host/opt/cni/bin",
    command: "install",
  });
});

Deno.test("coil-installer takes its environment, upstream's and more", () => {
  const options = parse([], {
    CNI_CONF_NAME: "01-coil.conflist",
    CNI_ETC_DIR: "/a/",
    CNI_BIN_DIR: "/b",
    COIL_PATH: "/coil",
    CNI_NETCONF: "{}",
    CNI_NETCONF_FILE: "/f",
    CNI_CHAIN: "true",
    COIL_PREPARE_EGRESS: "1",
    COIL_BOOT_TAINT: "unused in upstream, too",
  });
  assert.equal(options.confName, "01-coil.conflist");
  assert.equal(options.etcDirectory, "/a");
  assert.equal(options.binDirectory, "/b");
  assert.equal(options.coilPath, "/coil");
  assert.equal(options.netconf, "{}");
  assert.equal(options.netconfFile, "/f");
  assert.equal(options.chain, true);
  assert.equal(options.prepareEgress, true);
});

Deno.test("coil-installer: flags win over the environment, empty variables are none", () => {
  const { etcDirectory, confName } = parse(["--etc-dir", "/flag"], {
    CNI_ETC_DIR: "/env",
    CNI_CONF_NAME: "",
  });
  assert.equal(etcDirectory, "/flag");
  assert.equal(confName, undefined);
});

Deno.test("coil-installer: a file that is given by flag is not passed over for CNI_NETCONF", () => {
  const { netconf, netconfFile } = parse(["--netconf-file=/flag"], {
    CNI_NETCONF: "{}",
  });
  assert.equal(netconf, "");
  assert.equal(netconfFile, "/flag");
});

Deno.test("coil-installer uninstall knows what to keep", () => {
  const options = parse(["uninstall", "--keep-config"]);
  assert.equal(options.command, "uninstall");
  assert.equal(options.keepConfig, true);
  assert.equal(options.keepExecutable, false);
});
