// The launcher: what a container runtime calls as the CNI plugin `coil` (see
// README.md). It takes the call to coild, which answers it as the plugin would,
// and prints the answer; so no runtime of JavaScript is started for a pod.
//
// It knows nothing of CNI but names of variables. Whatever is not as it should
// be (no call of a runtime, no coild, another answer than agreed upon, too much
// to say) is left to the whole executable, `coil-executable` in the directory
// of this file, which gets the same arguments, environment and stdin.
//
// Request:  "COILCNI1", bytes of variables, bytes of stdin (32 bits each, in the
//           machine's order), NAME=value and a NUL for each variable, stdin.
// Answer:   "COILCNI1", exit code, bytes of stdout (the same), stdout.
//           Closing instead of answering leaves the call to the executable.
// The other end: roles/coild/plugin_server.ts.
//
// Freestanding: no libc, no relocations, raw syscalls only.
#include "machine.h"

#include <linux/auxvec.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#define MAGIC "COILCNI1"
#define SOCKET_SUFFIX ".cni"
#define EXECUTABLE "coil-executable"
#define VARIABLES "CNI_"
// coild gives up after 60 s and says so; who does not even do that hangs.
#define PATIENCE_S 70
#define PATH_LEN 4096
#define BUFFER_LEN (256 * 1024)

// From linux/socket.h and linux/net.h, which cannot be included without libc's.
#define AF_UNIX 1
#define SOCK_STREAM 1
#define SOCK_CLOEXEC 02000000
#define SOL_SOCKET 1
#define SO_RCVTIMEO 20
#define SO_SNDTIMEO 21
#define MSG_NOSIGNAL 0x4000

struct socket_address { // unix(7)
  unsigned short family;
  char path[108];
};

// The installer writes coild's socket behind the marker. Volatile, so that the
// compiler cannot assume these values.
struct place {
  char marker[16];
  char path[112];
};
__attribute__((used)) static volatile const struct place SOCKET = {
    .marker = {'C', 'O', 'I', 'L', '_', 'S', 'O', 'C', 'K', 'E', 'T', '_', 'P', 'A', 'T', 'H'}};

struct head {
  char magic[8];
  u32 first, second;
};
static char REQUEST[BUFFER_LEN], ANSWER[BUFFER_LEN];

#if defined(__x86_64__)
__asm__(".text\n.globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call launch\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl _start\n_start:\n  hint #34\n  mov x0, sp\n  b launch\n");
#endif

// A value of the auxiliary vector, which comes after the environment; 0 without.
static const char *auxiliary(char **envp, u64 tag) {
  while (*envp) envp++;
  for (const u64 *entry = (const u64 *)envp + 1; entry[0] != AT_NULL; entry += 2)
    if (entry[0] == tag) return (const char *)entry[1];
  return 0;
}

static _Noreturn void leave(int code) {
  for (;;) sys(__NR_exit_group, code, 0, 0, 0);
}

static int write_all(int fd, const char *p, u64 size) {
  while (size > 0) {
    i64 n = sys(__NR_write, fd, (i64)p, size, 0);
    if (n == -EINTR) continue;
    if (n <= 0) return 0;
    p += n, size -= n;
  }
  return 1;
}

// Bytes read until the end or until there is no room; negative is an error.
static i64 read_all(int fd, char *p, u64 room) {
  u64 done = 0;
  while (done < room) {
    i64 n = sys(__NR_read, fd, (i64)(p + done), room - done, 0);
    if (n == -EINTR) continue;
    if (n < 0) return n;
    if (n == 0) break;
    done += n;
  }
  return done;
}

// ------------------------------------------------------ the whole executable
// Gives stdin back: what was read of it, and the rest.
static int rewind_stdin(const char *taken, u64 size) {
  i64 fd = sys(__NR_memfd_create, (i64)"stdin", 0, 0, 0), n;
  if (fd < 0 || !write_all(fd, taken, size)) return 0;
  while ((n = read_all(0, ANSWER, sizeof ANSWER)) > 0)
    if (!write_all(fd, ANSWER, n)) return 0;
  if (n < 0) return 0;
  sys(__NR_lseek, fd, 0, 0, 0);
  if (sys(__NR_dup3, fd, 0, 0, 0) < 0) return 0;
  sys(__NR_close, fd, 0, 0, 0);
  return 1;
}

static _Noreturn void fail(const char *path, i64 error) {
  char text[PATH_LEN + 512], *p = text;
  p = put(p, "{\"cniVersion\": \"1.0.0\", \"code\": 5, \"msg\": \"Cannot run the executable that coil consists of\", "
             "\"details\": \"error ");
  p = put_number(p, -error, 10);
  p = put(put(p, " of "), *path ? path : "/proc/self/exe");
  p = put(p, "; coil-installer puts it there\"}\n");
  write_all(1, text, p - text);
  leave(1);
}

// Runs the executable in the directory of a file, whose path has n bytes; returns the error.
static i64 run_beside(char *path, i64 n, char **argv, char **envp) {
  while (n > 0 && path[n - 1] != '/') n--;
  put(path + n, EXECUTABLE);
  return sys(__NR_execve, (i64)path, (i64)argv, (i64)envp, 0);
}

// `taken` is what was read of stdin; 0 when nothing was.
static _Noreturn void run_executable(char **argv, char **envp, const char *taken, u64 size) {
  char path[PATH_LEN + sizeof EXECUTABLE], other[PATH_LEN + sizeof EXECUTABLE];
  // Also right when this file was replaced meanwhile: the directory stays the same.
  i64 n = sys(__NR_readlinkat, AT_FDCWD, (i64)"/proc/self/exe", (i64)path, PATH_LEN);
  if (n < 0) path[0] = 0, fail(path, n);
  if (taken && !rewind_stdin(taken, size)) fail(path, -EIO);
  i64 error = run_beside(path, n, argv, envp);
  // As it was called: another path where the two are in different mount namespaces.
  const char *called = auxiliary(envp, AT_EXECFN);
  if (called && len(called) < PATH_LEN) {
    put(other, called);
    run_beside(other, len(called), argv, envp);
  }
  fail(path, error);
}

// ------------------------------------------------------ the call
// Whether a runtime calls, and not a person. VERSION needs no coild.
static int is_call(char **envp) {
  for (; *envp; envp++)
    if (starts(*envp, "CNI_COMMAND="))
      return (*envp)[12] && !starts(*envp + 12, "VERSION");
  return 0;
}

static i64 connect_coild(void) {
  struct socket_address address;
  u64 n = 0;
  address.family = AF_UNIX;
  for (; n < sizeof address.path - sizeof SOCKET_SUFFIX && SOCKET.path[n]; n++) address.path[n] = SOCKET.path[n];
  if (n == 0 || SOCKET.path[n]) return -ENAMETOOLONG;
  put(address.path + n, SOCKET_SUFFIX);
  i64 fd = sys(__NR_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
  if (fd < 0) return fd;
  i64 patience[2] = {PATIENCE_S, 0};
  sys6(__NR_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, (i64)patience, sizeof patience, 0);
  sys6(__NR_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, (i64)patience, sizeof patience, 0);
  i64 error = sys(__NR_connect, fd, (i64)&address, sizeof address, 0);
  if (error == 0) return fd;
  sys(__NR_close, fd, 0, 0, 0);
  return error;
}

// Bytes of the variables, put behind the request's head; negative when they are too many.
static i64 put_variables(char **envp) {
  char *p = REQUEST + sizeof(struct head), *end = REQUEST + sizeof REQUEST / 2;
  for (; *envp; envp++) {
    if (!starts(*envp, VARIABLES)) continue;
    if (len(*envp) >= (u64)(end - p)) return -E2BIG;
    p = put(p, *envp) + 1;
  }
  return p - (REQUEST + sizeof(struct head));
}

static int send_all(int fd, const char *p, u64 size) {
  while (size > 0) {
    i64 n = sys6(__NR_sendto, fd, (i64)p, size, MSG_NOSIGNAL, 0, 0);
    if (n == -EINTR) continue;
    if (n <= 0) return 0;
    p += n, size -= n;
  }
  return 1;
}

static int is_magic(const char *p) {
  const char *magic = MAGIC;
  for (u32 i = 0; i < 8; i++) if (p[i] != magic[i]) return 0;
  return 1;
}

// Prints the answer and ends; returns when there is none that can be understood.
static void print_answer(int fd) {
  i64 n = read_all(fd, ANSWER, sizeof ANSWER);
  const struct head *head = (const void *)ANSWER;
  if (n < (i64)sizeof *head || !is_magic(head->magic) || head->first > 1) return;
  if (head->second != n - sizeof *head) return;
  leave(write_all(1, ANSWER + sizeof *head, head->second) ? head->first : 1);
}

__attribute__((used)) _Noreturn void launch(u64 *sp) {
  u64 argc = sp[0];
  char **argv = (char **)(sp + 1), **envp = argv + argc + 1;
  i64 fd = argc < 2 && is_call(envp) ? connect_coild() : -1;
  i64 variables = fd < 0 ? -1 : put_variables(envp);
  if (variables < 0) run_executable(argv, envp, 0, 0);

  char *text = REQUEST + sizeof(struct head) + variables;
  u64 room = REQUEST + sizeof REQUEST - text;
  i64 size = read_all(0, text, room);
  if (size < 0) run_executable(argv, envp, 0, 0);
  if ((u64)size < room) {
    struct head *head = (struct head *)REQUEST;
    put(head->magic, MAGIC);
    head->first = variables, head->second = size;
    if (send_all(fd, REQUEST, text + size - REQUEST)) print_answer(fd);
  }
  run_executable(argv, envp, text, size);
}
