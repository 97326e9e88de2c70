// Loaded before a server that would listen everywhere: it listens at the loopback address, and says where.
const { Server } = require("node:net");

const { listen } = Server.prototype;
Server.prototype.listen = function (port, ...rest) {
  // Only the form that names nothing but a port listens everywhere.
  if (!/^\d+$/.test(String(port)) || typeof rest[0] === "string") return listen.call(this, port, ...rest);
  this.once("listening", () => console.error(`127.0.0.1:${this.address().port}`));
  return listen.call(this, Number(port), "127.0.0.1", ...rest);
};
