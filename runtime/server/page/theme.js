// Runs before the first paint, so that a chosen theme does not flash; without a choice the system's is used.
try {
  const theme = localStorage.getItem("krafla.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The browser keeps nothing for this page: the system's theme it is.
}
