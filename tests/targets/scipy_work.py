# SPDX-License-Identifier: MIT
"""numpy and scipy at work: optimizers and filters that call back, dense and sparse linear algebra (OpenBLAS with its
threads), FFT, integration, interpolation."""
import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial
import scipy.special


def rosenbrock(x):
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def filtered(values):
    return values.max() - values.min()


def main():
    random = np.random.RandomState(1)
    dense = random.rand(300, 300)
    sparse = scipy.sparse.random(2000, 2000, 0.002, format="csc", random_state=1) + 10 * scipy.sparse.eye(2000, format="csc")
    picture = random.rand(60, 60)
    points = random.rand(2000, 3)
    print("ready", flush=True)
    while True:
        scipy.optimize.minimize(rosenbrock, np.zeros(6), method="BFGS")
        scipy.optimize.minimize(rosenbrock, np.zeros(6), method="L-BFGS-B")
        scipy.optimize.brentq(lambda x: x ** 3 - 1, 0, 3)
        scipy.linalg.svd(dense)
        scipy.linalg.eigh(dense + dense.T)
        scipy.linalg.solve(dense, dense[0])
        scipy.linalg.expm(dense[:80, :80])
        dense @ dense
        scipy.sparse.linalg.spsolve(sparse, np.ones(2000))
        scipy.sparse.linalg.eigs(sparse, k=3)
        scipy.sparse.linalg.gmres(sparse, np.ones(2000))
        scipy.ndimage.generic_filter(picture, filtered, size=3)
        scipy.ndimage.gaussian_filter(picture, 2)
        scipy.ndimage.label(picture > 0.5)
        scipy.fft.fft(points.ravel())
        scipy.integrate.quad(lambda x: np.exp(-x * x), -5, 5)
        scipy.integrate.solve_ivp(lambda t, y: -y, (0, 5), [1.0])
        scipy.interpolate.interp1d(points[:, 0], points[:, 1])(0.5)
        scipy.spatial.cKDTree(points).query(points, k=3)
        scipy.special.gamma(points)
        np.sort(points, axis=0)


main()
