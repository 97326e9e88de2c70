// Not part of any cell. It runs once while the image is made, and what it leaves changed in the heap is the dictionary that
// snapshots are compressed with. So it does what most programs do before they first wait for the host.
const items = [{ id: 1, name: "first" }, { id: 2, name: "second" }, { id: 3, name: "third" }];
const found = {};
async function lookUp(item, options = {}) {
  try {
    const result = await call("lookup", { id: item.id, limit: 10, ...options });
    found[item.name] = result;
    return result.items.filter((entry) => entry.score > 0.5).map((entry) => `${entry.title}: ${entry.score}`);
  } catch (error) {
    return { error: error.message };
  }
}
let total = 0;
for (const item of items) total += item.id;
const results = await Promise.all(items.slice(0, 1).map((item) => lookUp(item, { total })));
return { total, results };
