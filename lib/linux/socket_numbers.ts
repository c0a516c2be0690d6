/** SOCK_RAW | SOCK_CLOEXEC of socket(2). */
export const SOCK_RAW_CLOEXEC = 0o2000003;
/** SOL_SOCKET of `<asm-generic/socket.h>`. */
export const SOL_SOCKET = 1;
/** MSG_DONTWAIT of recv(2). */
export const MSG_DONTWAIT = 0x40;
