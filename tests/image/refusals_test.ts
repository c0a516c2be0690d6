// What `task image` says when it cannot.
import assert from "node:assert/strict";
import { imageTask, temporaryDirectory, theImage } from "./testing.ts";

const SMALL = ["--executable=/bin/true", "--compression=none"];

for (
  const { args, says } of [
    { args: ["--frobnicate"], says: /--frobnicate/ },
    { args: ["extra"], says: /extra/ },
    { args: ["--compression=zstd"], says: /"zstd": it is gzip or none/ },
    { args: ["--label=x"], says: /"x": it is not KEY=VALUE/ },
    { args: ["--out=a", "--rootfs=b"], says: /choose one/ },
  ]
) {
  Deno.test(`task image ${args.join(" ")} is refused in two lines`, async () => {
    const { code, stdout, stderr } = await imageTask(args);
    assert.equal(code, 2);
    assert.equal(stdout, "");
    assert.match(stderr, says);
    assert.match(stderr, /^Error: .*\nSee "deno task image --help"\.\n$/);
  });
}

Deno.test("task image --help tells all options", async () => {
  const { code, stdout } = await imageTask(["--help"]);
  assert.equal(code, 0);
  for (const option of ["--out", "--ref", "--rootfs", "SOURCE_DATE_EPOCH"]) {
    assert.ok(stdout.includes(option), option);
  }
});

/** Runs it; it ends with code 1 and says why in one line, without a stack. */
async function complaint(
  args: readonly string[],
  options: Parameters<typeof imageTask>[1] = {},
): Promise<string> {
  const { code, stderr } = await imageTask(args, options);
  assert.equal(code, 1, stderr);
  assert.match(stderr, /^Cannot [^\n]*\n/);
  assert.doesNotMatch(stderr, /^ +at /m);
  return stderr;
}

Deno.test("task image refuses an executable for another processor, and what is none", async () => {
  await using directory = await temporaryDirectory();
  const foreign = `${directory.path}/coil`;
  const bytes = await Deno.readFile("/bin/true");
  const isX86 = Deno.build.arch === "x86_64";
  new DataView(bytes.buffer).setUint16(18, isX86 ? 183 : 62, true);
  await Deno.writeFile(foreign, bytes);
  const [here, there] = isX86 ? ["amd64", "arm64"] : ["arm64", "amd64"];
  const says = await complaint([`--executable=${foreign}`]);
  assert.ok(
    says.includes(
      `it is for ${there}, and Debian's packages here are for ${here}`,
    ),
    says,
  );
  assert.match(
    await complaint(["--executable=/etc/passwd"]),
    /not a Linux executable/,
  );
  assert.match(
    await complaint(["--executable=/nowhere/coil"]),
    /there is no such file/,
  );
});

Deno.test("task image refuses a name that no registry takes, and a time that is none", async () => {
  assert.match(await complaint([...SMALL, "--ref=Coil"]), /image "Coil"/);
  const env = { SOURCE_DATE_EPOCH: "yesterday" };
  assert.match(
    await complaint(SMALL, { env }),
    /SOURCE_DATE_EPOCH "yesterday"/,
  );
});

Deno.test("task image says which of Debian's tools is missing", async () => {
  await using directory = await temporaryDirectory();
  const env = { PATH: directory.path };
  assert.match(await complaint(SMALL, { env }), /there is no "dpkg-deb"/);
  const cache = `${directory.path}/cache`;
  assert.match(
    await complaint(SMALL, { env, cache, withoutPackages: true }),
    /there is no "apt-get"/,
  );
});

Deno.test("task image without a mirror says so", async () => {
  await using directory = await temporaryDirectory();
  const cache = `${directory.path}/cache`;
  const says = await complaint(SMALL, {
    own: "network",
    cache,
    withoutPackages: true,
  });
  assert.match(
    says,
    /Debian packages of the image: .*\n(?:.*\n)*It takes Debian, and a mirror/,
  );
  // Nothing half-done stays.
  for await (const { name } of Deno.readDir(`${cache}/image`)) {
    assert.match(name, /\.lock$/);
  }
});

Deno.test("task image takes a damaged package for what it is", async () => {
  await using directory = await temporaryDirectory();
  const cache = `${directory.path}/cache`;
  const before = `cp -rL ${cache}/image/* ${directory.path}; rm ${cache}/image/*
mv ${directory.path}/packages-* ${cache}/image
for deb in ${cache}/image/packages-*/libc6_*.deb; do echo damaged > $deb; done`;
  const says = await complaint(SMALL, { cache, before });
  assert.match(says, /libc6_.*dpkg-deb says .*--refresh downloads it again/);
});

Deno.test("task image on a full disk says where, and leaves nothing behind", async () => {
  const { executable } = await theImage();
  await using directory = await temporaryDirectory();
  const full = `${directory.path}/full`;
  await Deno.mkdir(full);
  const left = `${directory.path}/left`;
  const says = await complaint(
    [`--executable=${executable}`, "--compression=none"],
    {
      cache: full,
      own: "mounts",
      mount: `mount -t tmpfs -o size=40m tmpfs ${full}`,
      after: `find ${full} -name '*.tmp' > ${left}`,
    },
  );
  assert.match(says, /no space is left there \(ENOSPC\)/);
  assert.equal(await Deno.readTextFile(left), "");
});

Deno.test("task image says where it may not write", async () => {
  const says = await complaint([...SMALL, "--out=/proc/nowhere/image.tar"]);
  assert.match(says, /Cannot write "\/proc\/nowhere\/image.tar"/);
});
