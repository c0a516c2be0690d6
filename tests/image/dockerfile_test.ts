// The Dockerfile, built by buildah: a build image is made of this machine's own programs, since none can be fetched.
import assert from "node:assert/strict";
import { homedir } from "node:os";
import { cacheDir, run } from "../../deploy/host/mod.ts";
import {
  assertFilesOf,
  ROOT,
  temporaryDirectory,
  theImage,
} from "./testing.ts";

/** What a build has of the machine, besides /usr. */
const ETC = ["alternatives", "apt", "group", "os-release", "passwd", "ssl"];
const LINKS = ["bin", "sbin", "lib", "lib64"];

/** buildah with a store of its own. */
type Buildah = (...args: readonly string[]) => Promise<string>;

/** As the image that `BUILD_IMAGE` names: a Debian with npx and gcc, whose /usr comes with the build. */
async function makeBuildImage(buildah: Buildah): Promise<string> {
  const container = (await buildah("from", "scratch")).trim();
  const root = (await buildah("mount", container)).trim();
  for (const name of ["dev", "etc", "proc", "root", "tmp", "usr"]) {
    await Deno.mkdir(`${root}/${name}`, { recursive: true });
  }
  for (const name of LINKS) {
    await Deno.symlink(`usr/${name}`, `${root}/${name}`);
  }
  for (const name of ETC) {
    await run("cp", ["-a", `/etc/${name}`, `${root}/etc`]);
  }
  await buildah("umount", container);
  await buildah("config", "--env", `PATH=${Deno.env.get("PATH")}`, container);
  await buildah("commit", "-q", container, "build-image");
  return "localhost/build-image";
}

Deno.test("Dockerfile: buildah makes the image that task image makes", async () => {
  const { open } = await theImage();
  await using directory = await temporaryDirectory();
  const buildah: Buildah = async (...args) =>
    await run("buildah", [
      ...["--root", `${directory.path}/root`],
      ...["--runroot", `${directory.path}/run`, "--storage-driver=vfs"],
      ...args,
    ], { cwd: ROOT });
  const base = await makeBuildImage(buildah);
  await buildah(
    ...["build", "--isolation=chroot", "--timestamp=0"],
    ...["--identity-label=false", `--build-arg=BUILD_IMAGE=${base}`],
    "--volume=/usr:/usr:ro",
    `--volume=${homedir()}/.npm:/root/.npm`,
    `--volume=${homedir()}/.cache:/root/.cache`,
    `--volume=${cacheDir()}:/root/.cache/coil`,
    ...["--tag", "coil:test", "."],
  );
  const container = (await buildah("from", "coil:test")).trim();
  const rootfs = (await buildah("mount", container)).trim();
  await assertFilesOf(open, rootfs);
  const { OCIv1 } = JSON.parse(
    await buildah("inspect", "--type=image", "coil:test"),
  );
  const { User, Env, Cmd, WorkingDir, Labels } = open.config.config;
  assert.deepEqual(
    [OCIv1.config.User, OCIv1.config.Env, OCIv1.config.Cmd],
    [User, Env, Cmd],
  );
  assert.equal(OCIv1.config.WorkingDir, WorkingDir);
  assert.deepEqual(OCIv1.config.Labels, Labels);
  await buildah("umount", "--all");
});
