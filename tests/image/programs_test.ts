// The image's programs, run with the image's own files as their root.
import assert from "node:assert/strict";
import { ROLE_LINKS } from "../../deploy/image/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { Container, type RunOptions } from "./container.ts";
import { theImage } from "./testing.ts";

async function unpack(): Promise<Container> {
  return await Container.unpack((await theImage()).open);
}

/** A pod's as in our manifests. */
const RESTRICTED: RunOptions = { readOnly: true, emptyDirs: ["/tmp"] };

Deno.test("image: every role starts by its name, as nobody, from read-only files", async () => {
  await using container = await unpack();
  for (const role of ROLE_LINKS) {
    const { code, stdout, stderr } = await container.run(
      [role, "--help"],
      RESTRICTED,
    );
    assert.equal(code, stderr.includes("not part of this release") ? 1 : 0);
    assert.match(stdout + stderr, new RegExp(`\\b${role}\\b`), role);
  }
  const { stdout } = await container.run(["coil", "version"], RESTRICTED);
  assert.match(stdout, new RegExp(`^coil version ${VERSION}\n`));
});

Deno.test("image: without a command it tells what it is", async () => {
  await using container = await unpack();
  const { open } = await theImage();
  const { code, stdout } = await container.run(
    open.config.config.Cmd,
    RESTRICTED,
  );
  assert.equal(code, 0);
  assert.match(stdout, /version/);
});

Deno.test("image: the plugin answers, as root", async () => {
  await using container = await unpack();
  const { code, stdout } = await container.run(["coil"], {
    ...RESTRICTED,
    user: "0:0",
    env: { CNI_COMMAND: "VERSION" },
  });
  assert.equal(code, 0);
  assert.ok(JSON.parse(stdout).supportedVersions.includes("1.1.0"));
});

Deno.test("image: it needs a place to write, and takes what a pod has", async () => {
  await using container = await unpack();
  const run = async (options: RunOptions) =>
    await container.run(["coil", "version"], { readOnly: true, ...options });
  for (const place of ["/tmp", "/dev/shm"]) {
    const { code, stderr } = await run({ emptyDirs: [place] });
    assert.equal(code, 0, `${place}: ${stderr}`);
  }
  const run0 = await run({ user: "0:0", emptyDirs: ["/run"] });
  assert.equal(run0.code, 0, run0.stderr);
  const own = await run({
    emptyDirs: ["/var/tmp"],
    env: { TMPDIR: "/var/tmp" },
  });
  assert.equal(own.code, 0, own.stderr);
  const none = await run({});
  const isCompiled = own.stdout.includes("built by deno compile");
  if (isCompiled) assert.equal(none.code, 0, none.stderr);
  else {
    assert.equal(none.code, 127);
    assert.match(none.stderr, /\/run.*TMPDIR.*\/tmp.*\/dev\/shm/);
  }
});

Deno.test("image: each program finds its libraries among its files", async () => {
  await using container = await unpack();
  const { open } = await theImage();
  const entries = await open.entries();
  const loader = entries.find(({ path }) => /\/ld-linux[^/]*$/.test(path));
  assert.ok(loader);
  let count = 0;
  for (const { path, mode, kind } of entries) {
    const isElf = kind === "file" &&
      (/\.so[^/]*$/.test(path) || (/bin\/|coil$/.test(path) && mode & 0o111));
    if (!isElf || path === loader.path) continue;
    const { code, stdout, stderr } = await container.run(
      [`/${loader.path}`, "--list", `/${path}`],
    );
    assert.equal(code, 0, `${path}: ${stderr}`);
    assert.doesNotMatch(stdout, /not found/, path);
    count++;
  }
  assert.ok(count > 10);
});

Deno.test("image: modprobe is there", async () => {
  await using container = await unpack();
  const { code, stdout } = await container.run(["modprobe", "--version"]);
  assert.equal(code, 0);
  assert.match(stdout, /^kmod version \d+/);
});

/** An object file with nothing but "license=MIT" in its section .modinfo, compressed as distributions compress modules. */
const MODULES: Readonly<Record<string, string>> = {
  "a.ko.xz":
    `/Td6WFoAAAFpIt42AgAhARYAAAB0L+Wj4AH3AHVdAD+RRYRoPYmm2pymrC4ry8w+AyjNpPKevsqZ
A/p6M98s12C0pEyphn5B4I4w47ONn30nMb01gdr93Jx0be3VULJjYtXkEY7/E8KGaNN10XGz7ZGs
yJc+eZJF7q66+F5aWcMmM62kmYoCmT0nvDWkJtGPltwvAAAAAAAF7lstAAGNAfgDAAB6eo8dPjAN
iwIAAAAAAVla`,
  "a.ko.zst":
    `KLUv/WT4AAUEACLGFBlwWQc0B1lKyxpkM1eLH3zt1rZVzP4V2TIFhxM/PCP+LwDieuXwv/4XrlGZ
NWnYnjnay5bTvrnZ+0j21lzx/lDzIJOzKVnXg0Pl3PXJ9aqPcZYuEyBALWyxAYNN8mEWPx4gozLT
KrgXJSkHOuy6QsYUTBkVYQThGNx4SLw4/Exn0w==`,
};

Deno.test("image: kmod reads compressed modules", async () => {
  await using container = await unpack();
  for (const [name, text] of Object.entries(MODULES)) {
    const bytes = Uint8Array.fromBase64(text);
    await Deno.writeFile(`${container.root}/usr/lib/modules/${name}`, bytes);
    const { stdout, stderr } = await container.run(
      ["modinfo", `/lib/modules/${name}`],
    );
    assert.match(stdout, /^license: +MIT$/m, `${name}: ${stderr}`);
  }
});

/** A gateway's environment; modules may be loaded, as far as the kernel says. */
const GATEWAY: RunOptions = {
  user: "0:0",
  ownNetwork: true,
  env: {
    COIL_POD_NAMESPACE: "outside",
    COIL_EGRESS_NAME: "nat",
    COIL_POD_NAME: "nat-0",
    COIL_POD_ADDRESSES: "10.1.2.3",
  },
};
/** /sys is empty, so that no module is loaded; /proc/sys with nothing but the network's own, and a kernel that loads modules. */
const LOADS_MODULES = `sys="$ROOT/proc/sys"
/usr/bin/mount -t tmpfs tmpfs "$sys"
/usr/bin/mkdir "$sys/net" "$sys/kernel"
/usr/bin/mount --rbind /proc/sys/net "$sys/net"
echo 0 > "$sys/kernel/modules_disabled"`;
const WITHOUT_MODPROBE = `${LOADS_MODULES}
/usr/bin/rm "$ROOT/usr/sbin/modprobe"`;

/** Whether this machine's kernel makes tunnels, modules or not. */
async function hasTunnels(): Promise<boolean> {
  const { success } = await new Deno.Command("unshare", {
    args: [
      ...["--net", "ip", "link", "add", "probe", "type", "ipip"],
      ...["local", "192.0.2.1", "remote", "192.0.2.2"],
      ...["encap", "fou", "encap-sport", "auto", "encap-dport", "5555"],
    ],
  }).output();
  return success;
}

/** What a gateway says of the modules; nothing where the kernel has tunnels without. */
async function complaint(prepare: string): Promise<string | undefined> {
  await using container = await unpack();
  const { code, stderr } = await container.run(["coil-egress"], {
    ...GATEWAY,
    prepare,
  });
  assert.equal(code, 1, "there is no cluster");
  if (!await hasTunnels()) return stderr;
  assert.doesNotMatch(stderr, /could not be loaded/);
  return undefined;
}

Deno.test("image: a gateway asks the image's modprobe, and says what it said", async () => {
  const said = await complaint(LOADS_MODULES);
  if (said === undefined) return;
  assert.match(
    said,
    /"fou\\", \\"ipip\\" could not be loaded: modprobe ended with code 1: .*Module fou not found in directory \/lib\/modules/,
  );
});

Deno.test("image: without modprobe a gateway says that it is missing, and what to do", async () => {
  const said = await complaint(WITHOUT_MODPROBE);
  if (said === undefined) return;
  assert.match(
    said,
    /the program \\"modprobe\\" is not installed here\. Load the modules when the node boots/,
  );
});
